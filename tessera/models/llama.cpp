// llama: Llama 1 to 3, Mistral, SmolLM and all models stored under that name. Pre-norm blocks with RMS norm,
// adjacent-pair rope over the whole head, grouped-query attention and SwiGLU; optional biases. With experts (Mixtral),
// every layer is a mixture, and the routing weights are a softmax divided by its sum.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Llama final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn_norm = norm(il, "ffn_norm")};
    add_ffn_or_experts(l, il);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_llama(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Llama>(files, rope,
                                   {.architecture = "llama", .rope = RopePart::whole, .ffn_scales = FfnScales::all});
}

}  // namespace tessera
