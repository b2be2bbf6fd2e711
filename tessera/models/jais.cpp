// jais: layer norms, ALiBi, SwiGLU, biases everywhere. Scores are divided by the head size, not by its root.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Jais final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(traits_.max_alibi, hp_.real_or("attention.max_alibi_bias", 0.0f, 0.0f, 1024.0f));
    attention_scale_ = 1.0f / static_cast<float>(k_dim_);
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_jais(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Jais>(files, rope,
                                  {.architecture = "jais", .norm = nn::NormKind::layer, .rope = RopePart::none});
}

}  // namespace tessera
