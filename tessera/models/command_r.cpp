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
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (n_layers_ >= kLayersPlus) {
      nn::Attention& a = l.attention;
      a.q_norm = norm(block(il, "attn_q_norm"), {a.k_dim, a.n_heads});
      a.k_norm = norm(block(il, "attn_k_norm"), {a.k_dim, a.n_heads_kv});
    }
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_command_r(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<CommandR>(files, rope,
                                      {.architecture = "command-r",
                                       .form = LayerForm::parallel,
                                       .norm = nn::NormKind::layer,
                                       .output = OutputWeights::embedding,
                                       .logit_scale = KeyUse::optional});
}

}  // namespace tessera
