// gptneox: Pythia and GPT-NeoX. Layer norms, partial rope, GELU. Attention and feed-forward block are parallel with a
// norm each, or sequential.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Gptneox final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(is_parallel_, hp_.flag("use_parallel_residual"));
    return {};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    return is_parallel_ ? s.parallel(x, s.norm(x, l.attn_norm), s.norm(x, l.ffn_norm), l) : Transformer::layer(s, x, l);
  }

 private:
  bool is_parallel_ = false;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gptneox(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gptneox>(files, rope,
                                     {.architecture = "gptneox",
                                      .ffn = FfnForm::plain,
                                      .activation = nn::Activation::gelu,
                                      .norm = nn::NormKind::layer,
                                      .pairs = RopePairs::halves,
                                      .output = OutputWeights::own});
}

}  // namespace tessera
