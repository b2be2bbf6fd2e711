// gptneox: Pythia and GPT-NeoX. Layer norms, partial rope, GELU; attention and feed-forward block side by side with a
// norm each, or one after the other.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Gptneox final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(is_parallel_, hp_.flag("use_parallel_residual"));
    return {};
  }

  DecoderLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn = plain_ffn(il, nn::Activation::gelu)};
  }

  Value layer(DecoderStep& s, Value x, const DecoderLayer& l) const override {
    return is_parallel_ ? s.parallel(x, s.norm(x, l.attn_norm), s.norm(x, l.ffn_norm), l) : Decoder::layer(s, x, l);
  }

 private:
  bool is_parallel_ = false;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gptneox(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Gptneox>(files, rope,
                                 {.architecture = "gptneox",
                                  .norm = nn::NormKind::layer,
                                  .pairs = RopePairs::halves,
                                  .output = OutputWeights::own});
}

}  // namespace tessera
