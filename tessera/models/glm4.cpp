// glm4: GLM 4 0414, and GLM 4.1V on text. Norms before and after attention and feed-forward block, fused gate and up,
// partial rope. If the file has rope sections, rope pairs halves (in text all sections have the same position).
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Glm4 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override { return read_rope_sections(); }

  TransformerLayer list_layer(int64_t il) override {
    return {.attn_norm = norm(il, "attn_norm"),
            .attn_post_norm = norm(il, "post_attention_norm"),
            .attention = attention(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn_post_norm = norm(il, "post_ffw_norm"),
            .ffn = fused_ffn(il)};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_glm4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Glm4>(files, rope, {.architecture = "glm4"});
}

}  // namespace tessera
