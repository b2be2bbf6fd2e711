// gemma3: like gemma2 without the cap on scores, plus norms of the heads of q and k. Five of six layers have a window
// and a separate rope without scaling.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kGemma3Period = 6;      // the last layer of each period has no window
constexpr int64_t kGemma3Layers27B = 62;  // 27B: scores are scaled by n_embd / n_heads, not by the head size

class Gemma3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    embedding_scale_ = std::sqrt(static_cast<float>(info_.n_embd));
    TESSERA_ASSIGN(final_soft_cap_, hp_.real_or("final_logit_softcapping", 0.0f, 0.0f, 1e6f));
    TESSERA_ASSIGN(window_, window(0));
    TESSERA_ASSIGN(window_rope_, window_rope({.base = 10000.0f, .is_stretched = false}));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attn_post_norm = norm(il, "post_attention_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .ffn_post_norm = norm(il, "post_ffw_norm"),
                       .ffn = gated_ffn(il, nn::Activation::gelu)};
    nn::Attention& a = l.attention;
    add_head_norms(a, il);
    if (n_layers_ == kGemma3Layers27B)
      a.params.scale = std::sqrt(static_cast<float>(a.n_heads) / static_cast<float>(info_.n_embd));
    if (window_ > 0) alternate_window(a, il, kGemma3Period);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma3>(files, rope, {.architecture = "gemma3", .pairs = RopePairs::halves});
}

}  // namespace tessera
