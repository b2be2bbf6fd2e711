// deepseek2: DeepSeek V2, V3, R1 and other models with latent attention. mistral4: Mistral models of the same form. The
// first layers are dense. The others have experts, chosen within groups, and a shared expert. The two differ in the
// magnitude of YaRN.
//
// deepseek32 (DeepSeek V3.2) and glm-dsa (GLM 5): mistral4's form, with an indexer that chooses the keys of each query.
// While a text has no more tokens than the indexer chooses, all are chosen. Longer texts are refused. The indexer's
// weights are not read.
#include <cmath>

#include "tessera/models/latent_model.h"

namespace tessera {

namespace {

constexpr float kStoredShare = 0.1f;  // files store a tenth of the multiplier of YaRN's logarithm

class DeepSeek2 : public LatentModel {
 public:
  using LatentModel::LatentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_latent_keys());
    // The files of GLM 4.7 Flash do not specify that its scores are sigmoids.
    const bool is_glm_flash = (n_layers_ == 47 || n_layers_ == 48) && info_.n_vocab == 154880;
    if (is_glm_flash && !hp_.has("expert_gating_func")) mixture_.router.gating = nn::Gating::sigmoid;
    TESSERA_ASSIGN(const float stored, hp_.real_or("rope.scaling.yarn_log_multiplier", 0.0f, 0.0f, 1e3f));
    const float m = magnitude_of_scores(stored / kStoredShare);
    score_scale_ = m * m / std::sqrt(static_cast<float>(head_k_dim_));
    return read_temperature(info_.ropes[0].config.original_context);
  }

  /// Sets the magnitude of rope. Returns that of scores, which are multiplied by its square.
  virtual float magnitude_of_scores(float log_multiplier) {
    // If the file has a multiplier, the magnitude applies only to the scores.
    nn::RopeConfig& config = info_.ropes[0].config;
    if (log_multiplier != 0.0f) config.yarn_log_multiplier = 1.0f;
    const RopeTableParams params = nn::rope_table_params(config);
    return params.magnitude * (1.0f - 0.1f * log_multiplier * std::log(params.freq_scale));
  }
};

class Mistral4 : public DeepSeek2 {
 public:
  using DeepSeek2::DeepSeek2;

 protected:
  float magnitude_of_scores(float log_multiplier) override {
    nn::RopeConfig& config = info_.ropes[0].config;
    config.yarn_log_multiplier = 0.0f;
    const float magnitude = nn::rope_table_params(config).magnitude;
    config.yarn_log_multiplier = log_multiplier;
    return magnitude;
  }
};

class DeepSeek32 : public Mistral4 {
 public:
  using Mistral4::Mistral4;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(Mistral4::read_keys());
    return read_index(1);
  }
};

class GlmDsa final : public DeepSeek32 {
 public:
  using DeepSeek32::DeepSeek32;

 protected:
  // The multiplier of YaRN's logarithm is not used.
  float magnitude_of_scores(float /*log_multiplier*/) override { return Mistral4::magnitude_of_scores(0.0f); }
};

constexpr TransformerTraits traits_of(std::string_view name, PredictionHeads heads) {
  return {.architecture = name,
          .optional = {.output_scale = false},
          .mixture = {.layers = ExpertLayers::after_dense,
                      .shared = SharedWidth::counted,
                      .gating_key = KeyUse::optional,
                      .reads_norm = true,
                      .reads_scale = true},
          .heads = heads};
}

}  // namespace

Result<std::unique_ptr<Model>> create_deepseek2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<DeepSeek2>(files, rope, traits_of("deepseek2", PredictionHeads::after_norm));
}

Result<std::unique_ptr<Model>> create_deepseek32(const ModelFiles& files, const RopeOverrides& rope) {
  TransformerTraits traits = traits_of("deepseek32", PredictionHeads::after_norm);
  traits.ffn_scales = FfnScales::all;
  traits.mixture.gating_key = KeyUse::required;
  return create_transformer<DeepSeek32>(files, rope, traits);
}

Result<std::unique_ptr<Model>> create_glm_dsa(const ModelFiles& files, const RopeOverrides& rope) {
  TransformerTraits traits = traits_of("glm-dsa", PredictionHeads::after_norm);
  traits.ffn_scales = FfnScales::all;
  traits.mixture.gating = nn::Gating::sigmoid;
  return create_transformer<GlmDsa>(files, rope, traits);
}

Result<std::unique_ptr<Model>> create_mistral4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mistral4>(files, rope, traits_of("mistral4", PredictionHeads::none));
}

}  // namespace tessera
