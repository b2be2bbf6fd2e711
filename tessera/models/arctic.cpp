// arctic: Snowflake Arctic. Beside the dense block, each layer has experts, whose input is the normed input of the
// layer, not the result of attention. The dense block is as wide as the embedding.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Arctic final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.ffn = dense_ffn(il, info_.n_embd);
    expert_norms_.push_back(norm(il, "ffn_norm_exps"));
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value y = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    const Value dense = nn::ffn(s.b, s.norm(y, l.ffn_norm), l.ffn);
    const Value routed = nn::experts(s.b, s.norm(s.wanted(x), expert_norms_[to_size(s.layer)]), l.experts);
    return s.b.add(y, s.b.add(dense, routed));
  }

 private:
  std::vector<nn::Norm> expert_norms_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_arctic(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Arctic>(files, rope,
                                    {.architecture = "arctic",
                                     .rope = RopePart::whole,
                                     .mixture = {.layers = ExpertLayers::all, .width = ExpertWidth::dense}});
}

}  // namespace tessera
