// falcon: attention and feed-forward block are parallel and share one layer norm (7B), or attention has a second one
// (40B). GELU.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Falcon final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    second_norms_.push_back(maybe_norm(block(il, "attn_norm_2"), {info_.n_embd}));
    return Transformer::list_layer(il);
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Norm& second = second_norms_[to_size(s.layer)];
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, second.present() ? s.norm(x, second) : n, n, l);
  }

 private:
  std::vector<nn::Norm> second_norms_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_falcon(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Falcon>(files, rope,
                                    {.architecture = "falcon",
                                     .form = LayerForm::parallel,
                                     .ffn = FfnForm::plain,
                                     .activation = nn::Activation::gelu,
                                     .norm = nn::NormKind::layer,
                                     .rope = RopePart::whole,
                                     .pairs = RopePairs::halves});
}

}  // namespace tessera
