// minicpm: like granite, with factors on embeddings, the output of each block, and logits. Files of the first models
// have no keys for them.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr float kEmbeddingScale = 12.0f;
constexpr float kDepthScale = 1.4f;   // of the output of each block, divided by sqrt(n_layers)
constexpr float kBaseWidth = 256.0f;  // logits are divided by n_embd / kBaseWidth

class Minicpm final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    embedding_scale_ = kEmbeddingScale;
    residual_scale_ = kDepthScale / std::sqrt(static_cast<float>(n_layers_));
    logit_scale_ = kBaseWidth / static_cast<float>(info_.n_embd);
    TESSERA_TRY(read_multipliers());
    attention_scale_ = 0.0f;
    TESSERA_ASSIGN(const float divisor, hp_.real_or("logit_scale", 0.0f, 0.0f, 1e6f));
    if (divisor != 0.0f) logit_scale_ = 1.0f / divisor;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_minicpm(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Minicpm>(files, rope,
                                     {.architecture = "minicpm",
                                      .rope = RopePart::whole,
                                      .mixture = {.layers = ExpertLayers::if_counted, .width = ExpertWidth::dense}});
}

}  // namespace tessera
