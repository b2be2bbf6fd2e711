// bitnet: BitNet b1.58. RMS norms of the heads' outputs before the output projection, and of the activation before
// ffn_down. All products have scales.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class BitNet final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    sub_norms_.push_back({norm(il, "attn_sub_norm"), norm(block(il, "ffn_sub_norm"), {n_ff(il)})});
    return Transformer::list_layer(il);
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    GraphBuilder& b = s.b;
    const SubNorms& sub = sub_norms_[to_size(s.layer)];
    const nn::Heads heads = nn::rotate(b, nn::project(b, s.norm(x, l.attn_norm), l.attention), l.attention, s.ropes);
    const Value y = s.norm(s.wanted(nn::attend(b, heads, l.attention, s.in, s.cache)), sub.attn);
    x = s.residual(x, nn::linear(b, y, l.attention.out));
    const Value n = s.norm(x, l.ffn_norm);
    const Value hidden = nn::activate(b, nn::linear(b, n, l.ffn.gate), nn::linear(b, n, l.ffn.up), l.ffn.activation);
    return s.residual(x, nn::linear(b, s.norm(hidden, sub.ffn), l.ffn.down));
  }

 private:
  struct SubNorms {
    nn::Norm attn, ffn;
  };
  std::vector<SubNorms> sub_norms_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_bitnet(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<BitNet>(files, rope,
                                    {.architecture = "bitnet",
                                     .pairs = RopePairs::halves,
                                     .output = OutputWeights::embedding,
                                     .ffn_scales = FfnScales::all});
}

}  // namespace tessera
