// olmoe: as llama with experts in every layer, whose weights are a softmax's over all, as they are; q and k are normed
// over all heads.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Olmoe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override { return require_experts(); }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .experts = experts(il, n_ff(il), {.gating = nn::Gating::softmax, .normalize = false})};
    add_whole_norms(l.attention, il);
    // Its products for q, k and v have neither bias nor, but for NVFP4, scale: what a file has of them is not used.
    for (nn::Linear* w : {&l.attention.q, &l.attention.k, &l.attention.v}) {
      w->bias = nullptr;
      if (w->weight != nullptr && w->weight->dtype != DType::nvfp4) w->scale = nullptr;
    }
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_olmoe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Olmoe>(files, rope,
                                   {.architecture = "olmoe", .pairs = RopePairs::halves, .output = OutputWeights::own});
}

}  // namespace tessera
