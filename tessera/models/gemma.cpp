// gemma: GELU gated; embeddings are multiplied by sqrt(n_embd) and are the output layer too. Norms are stored with 1
// added.
#include <cmath>

#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Gemma final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  Result<> read_keys() override {
    embedding_scale_ = std::sqrt(static_cast<float>(info_.n_embd));
    return {};
  }

  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = gated_ffn(il, nn::Activation::gelu)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Gemma>(
      files, rope, {.architecture = "gemma", .pairs = RopePairs::halves, .output = OutputWeights::embedding});
}

}  // namespace tessera
