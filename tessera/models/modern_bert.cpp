// modern-bert: ModernBERT. Norms of the embeddings, and before attention and feed-forward block. The first attention
// has no norm of its own. Two of three layers have a symmetric window and a separate rope.
#include "tessera/gguf/keys.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class ModernBert final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const std::string_view activation,
                   files_.metadata().get_or<std::string_view>(hp_.full_key("hidden_activation"), "gelu"));
    if (activation == "silu") traits_.activation = nn::Activation::silu;
    return {};
  }

  void list_more() override {
    rank_.pooling = nn::Pooling::mean;
    rank_.activation = nn::RankHead::Activation::gelu;
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = il == 0 ? nn::Norm{} : norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .ffn = dense_ffn(il)};
    place(l.attention, il);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_modern_bert(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<ModernBert>(
      files, rope,
      {.architecture = "modern-bert",
       .ffn = FfnForm::fused,
       .activation = nn::Activation::gelu,
       .norm = nn::NormKind::layer,
       .pairs = RopePairs::halves,
       .output = OutputWeights::none,
       .has_embd_norm = true,
       .window = {.period = 3, .begins_without = true, .pattern = KeyUse::optional, .rope_base = 10000.0f},
       .is_causal = false});
}

}  // namespace tessera
