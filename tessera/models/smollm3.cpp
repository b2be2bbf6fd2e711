// smollm3: as llama; every fourth layer knows no positions.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class SmolLm3 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    DecoderLayer l{.attn_norm = norm(il, "attn_norm"),
                   .attention = attention(il),
                   .ffn_norm = norm(il, "ffn_norm"),
                   .ffn = gated_ffn(il)};
    if ((il + 1) % 4 == 0) l.attention.rope = nn::kNoRope;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_smollm3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<SmolLm3>(files, rope, {.architecture = "smollm3", .rope = RopePart::whole});
}

}  // namespace tessera
