// qwen3: as qwen2 without biases; the heads of q and k are normed before they are rotated.
#include "tessera/models/decoder.h"

namespace tessera {

namespace {

class Qwen3 final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  DecoderLayer list_layer(int64_t il) override {
    DecoderLayer l{.attn_norm = norm(il, "attn_norm"),
                   .attention = attention(il),
                   .ffn_norm = norm(il, "ffn_norm"),
                   .ffn = gated_ffn(il)};
    add_head_norms(l.attention, il);
    return l;
  }

  // Rerankers: the shares of the last token's labels.
  void list_more() override {
    rank_.pooling = nn::Pooling::last;
    rank_.has_soft_max = true;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_decoder<Qwen3>(files, rope,
                               {.architecture = "qwen3", .pairs = RopePairs::halves, .ffn_scales = FfnScales::all});
}

}  // namespace tessera
