// modern-bert: ModernBERT. Norms of the embeddings, and before attention and feed-forward block. The first attention
// has no norm of its own. Two of three layers have a symmetric window and a separate rope.
#include "tessera/gguf/keys.h"
#include "tessera/models/encoder.h"

namespace tessera {

namespace {

constexpr int64_t kModernBertPeriod = 3;  // the first layer of each period has no window

class ModernBert final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(period_, hp_.integer_or("attention.sliding_window_pattern", kModernBertPeriod, 0, kMaxLayers));
    TESSERA_ASSIGN(window_, window(0));
    TESSERA_ASSIGN(window_rope_, window_rope({.base = 10000.0f}));
    TESSERA_ASSIGN(const std::string_view activation,
                   files_.metadata().get_or<std::string_view>(hp_.full_key("hidden_activation"), "gelu"));
    if (activation == "silu") activation_ = nn::Activation::silu;
    return {};
  }

  void list_more() override {
    embd_norm_ = norm("token_embd_norm", {info_.n_embd});
    rank_.pooling = nn::Pooling::mean;
    rank_.activation = nn::RankHead::Activation::gelu;
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = il == 0 ? nn::Norm{} : norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .ffn = fused_ffn(il, activation_)};
    if (window_ > 0 && (period_ == 0 || il % period_ != 0)) {
      l.attention.params.window = window_ / 2 + 1;  // includes keys at a distance of window / 2
      l.attention.rope = window_rope_;
    }
    return l;
  }

 private:
  int64_t period_ = kModernBertPeriod;
  nn::Activation activation_ = nn::Activation::gelu;
};

}  // namespace

Result<std::unique_ptr<Model>> create_modern_bert(const ModelFiles& files, const RopeOverrides& rope) {
  TransformerTraits traits = encoder_traits("modern-bert", RopePart::some);
  traits.output_norm = "output_norm";
  return create_transformer<ModernBert>(files, rope, traits);
}

}  // namespace tessera
