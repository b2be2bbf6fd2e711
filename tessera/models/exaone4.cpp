// exaone4: norms only after attention and after the feed-forward block, and norms of the heads of q and k. In the 32B
// model, three of four layers have a window and rope. The fourth has neither: full attention without positions.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kBlocks32B = 64;
constexpr int64_t kExaone4Period = 4;  // the last layer of each period has no window

class Exaone4 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    if (n_blocks_ != kBlocks32B) return {};
    TESSERA_ASSIGN(window_, window(4096));
    TESSERA_ASSIGN(window_rope_, window_rope({.base = info_.ropes[0].config.freq_base}));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_post_norm = norm(il, "post_attention_norm"),
                       .attention = attention(il),
                       .ffn_post_norm = norm(il, "post_ffw_norm"),
                       .ffn = gated_ffn(il)};
    add_head_norms(l.attention, il);
    if (window_ > 0) alternate_window(l.attention, il, kExaone4Period, nn::kNoRope);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_exaone4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Exaone4>(files, rope, {.architecture = "exaone4", .pairs = RopePairs::halves});
}

}  // namespace tessera
