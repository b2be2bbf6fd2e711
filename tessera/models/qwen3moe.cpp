// qwen3moe: as qwen3 with experts in every layer; the weights of the chosen are divided by their sum.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Qwen3Moe final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(want_experts());
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(0));
    return {};
  }

  DecoderLayer list_layer(int64_t il) override {
    DecoderLayer l{.attn_norm = norm(il, "attn_norm"),
                   .attention = attention(il),
                   .ffn_norm = norm(il, "ffn_norm"),
                   .experts = experts(il, n_ff_experts_, {.gating = nn::Gating::softmax, .normalize = true})};
    add_head_norms(l.attention, il);
    return l;
  }

 private:
  int64_t n_ff_experts_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Qwen3Moe>(
      files, rope, {.architecture = "qwen3moe", .pairs = RopePairs::halves, .ffn_scales = FfnScales::all});
}

}  // namespace tessera
