// bloom: layer norms, also of the embeddings; ALiBi instead of rope, GELU, biases everywhere.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

constexpr float kMaxAlibi = 8.0f;

class Bloom final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  void list_more() override { embd_norm_ = norm("token_embd_norm", {info_.n_embd}); }

  DecoderLayer list_layer(int64_t il) override {
    DecoderLayer l{.attn_norm = norm(il, "attn_norm"),
                   .attention = attention(il),
                   .ffn_norm = norm(il, "ffn_norm"),
                   .ffn = plain_ffn(il, nn::Activation::gelu)};
    l.attention.params.max_alibi = kMaxAlibi;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_bloom(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Bloom>(files, rope,
                               {.architecture = "bloom", .norm = nn::NormKind::layer, .rope = RopePart::none});
}

}  // namespace tessera
