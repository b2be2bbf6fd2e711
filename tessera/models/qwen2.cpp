// qwen2: Qwen 1.5 to 2.5. As llama with biases on q, k and v, and rope over halves.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Qwen2 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = gated_ffn(il)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Qwen2>(files, rope, {.architecture = "qwen2", .pairs = RopePairs::halves});
}

}  // namespace tessera
