// olmo2: OLMo 2 and 3. Norms only after attention and after the feed-forward block. q and k are normed over all heads.
// In OLMo 3, three of four layers have a window and a rope without scaling.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kOlmo2Period = 4;  // the last layer of each period has no window

class Olmo2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(window_, window(0));
    const float base = info_.ropes[0].config.freq_base;
    TESSERA_ASSIGN(window_rope_, window_rope({.base = base, .is_stretched = false}));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_post_norm = norm(il, "post_attention_norm"),
                       .attention = attention(il),
                       .ffn_post_norm = norm(il, "post_ffw_norm"),
                       .ffn = gated_ffn(il)};
    add_whole_norms(l.attention, il);
    if (window_ > 0) alternate_window(l.attention, il, kOlmo2Period);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_olmo2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Olmo2>(files, rope,
                                   {.architecture = "olmo2", .pairs = RopePairs::halves, .output = OutputWeights::own});
}

}  // namespace tessera
