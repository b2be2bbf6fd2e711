// olmoe: like llama with experts in every layer. Routing weights are a softmax over all experts, not normalized over
// the chosen ones. q and k are normed over all heads.
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
    // The products for q, k and v have no bias, and a scale only for NVFP4. Any others in the file are ignored.
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
