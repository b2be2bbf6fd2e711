// phi3: Phi 3 to 4. RMS norms, fused gate and up, rope over a part of the head, for long contexts with factors per
// pair. The sliding window in its files is not used, as in llama.cpp.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Phi3 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = fused_ffn(il)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_phi3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Phi3>(files, rope, {.architecture = "phi3", .pairs = RopePairs::halves});
}

}  // namespace tessera
