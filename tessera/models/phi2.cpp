// phi2: attention and feed-forward block are parallel and share one layer norm. Biases everywhere, also on the output.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Phi2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn = plain_ffn(il, nn::Activation::gelu)};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, n, n, l);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_phi2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Phi2>(
      files, rope,
      {.architecture = "phi2", .norm = nn::NormKind::layer, .pairs = RopePairs::halves, .output = OutputWeights::own});
}

}  // namespace tessera
