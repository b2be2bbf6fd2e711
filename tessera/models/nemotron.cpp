// nemotron: Nemotron 3 and Minitron. Layer norms stored with 1 added, partial rope, squared ReLU.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Nemotron final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = plain_ffn(il, nn::Activation::relu_squared)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_nemotron(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Nemotron>(files, rope,
                                  {.architecture = "nemotron",
                                   .norm = nn::NormKind::layer,
                                   .pairs = RopePairs::halves,
                                   .output = OutputWeights::own});
}

}  // namespace tessera
