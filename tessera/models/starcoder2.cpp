// starcoder2: layer norms, rope over halves, grouped queries, GELU, biases everywhere.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Starcoder2 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = plain_ffn(il, nn::Activation::gelu)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_starcoder2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Starcoder2>(
      files, rope, {.architecture = "starcoder2", .norm = nn::NormKind::layer, .pairs = RopePairs::halves});
}

}  // namespace tessera
