// gpt2: layer norms, learned positions, GELU, biases everywhere, tied output unless the file has one.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Gpt2 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  void list_more() override {
    position_embd_ = weights_.need("position_embd.weight", {info_.n_embd, info_.n_ctx_train}, Op::get_rows);
  }

  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = plain_ffn(il, nn::Activation::gelu)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gpt2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Gpt2>(files, rope,
                              {.architecture = "gpt2", .norm = nn::NormKind::layer, .rope = RopePart::none});
}

}  // namespace tessera
