// minicpm: like granite, with factors on embeddings, the output of each block, and logits. Files of the first models
// have no keys for them. minicpm3: the same factors, always, with latent attention whose cache stores keys and values
// of each head, and rope over halves.
#include <cmath>

#include "tessera/models/latent_model.h"

namespace tessera {

namespace {

constexpr float kEmbeddingScale = 12.0f;
constexpr float kDepthScale = 1.4f;   // of the output of each block, divided by sqrt(n_layers)
constexpr float kBaseWidth = 256.0f;  // logits are divided by n_embd / kBaseWidth

/// The two architectures, by their base classes.
template <class Base>
class WithFactors : public Base {
 public:
  using Base::Base;

 protected:
  void set_factors() {
    this->embedding_scale_ = kEmbeddingScale;
    this->residual_scale_ = kDepthScale / std::sqrt(static_cast<float>(this->n_layers_));
    this->logit_scale_ = kBaseWidth / static_cast<float>(this->info_.n_embd);
  }
};

class Minicpm final : public WithFactors<Transformer> {
 public:
  using WithFactors::WithFactors;

 protected:
  Result<> read_keys() override {
    set_factors();
    TESSERA_TRY(read_multipliers());
    attention_scale_ = 0.0f;
    TESSERA_ASSIGN(const float divisor, hp_.real_or("logit_scale", 0.0f, 0.0f, 1e6f));
    if (divisor != 0.0f) logit_scale_ = 1.0f / divisor;
    return {};
  }
};

class Minicpm3 final : public WithFactors<LatentModel> {
 public:
  using WithFactors::WithFactors;

 protected:
  Result<> read_keys() override {
    set_factors();
    return read_latent_keys();
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_minicpm(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Minicpm>(files, rope,
                                     {.architecture = "minicpm",
                                      .rope = RopePart::whole,
                                      .mixture = {.layers = ExpertLayers::if_counted, .width = ExpertWidth::dense}});
}

Result<std::unique_ptr<Model>> create_minicpm3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Minicpm3>(files, rope, {.architecture = "minicpm3", .pairs = RopePairs::halves});
}

}  // namespace tessera
