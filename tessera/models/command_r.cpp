// command-r: Command R and R+. Attention and SwiGLU are parallel and share one layer norm without bias. Logits are
// multiplied by a constant. R+ norms the heads of q and k with a separate weight row per head.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kLayersPlus = 64;  // models with this many layers have norms of heads

class CommandR final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(logit_scale_, hp_.real_or("logit_scale", 1.0f, 0.0f, 1e6f));
    if (logit_scale_ == 0.0f) logit_scale_ = 1.0f;  // 0 means "not scaled"
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn = gated_ffn(il)};
    if (n_layers_ >= kLayersPlus) {
      nn::Attention& a = l.attention;
      a.q_norm = norm(block(il, "attn_q_norm"), {a.k_dim, a.n_heads});
      a.k_norm = norm(block(il, "attn_k_norm"), {a.k_dim, a.n_heads_kv});
    }
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, n, n, l);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_command_r(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<CommandR>(
      files, rope, {.architecture = "command-r", .norm = nn::NormKind::layer, .output = OutputWeights::embedding});
}

}  // namespace tessera
