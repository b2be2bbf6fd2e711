// deepseek2: DeepSeek V2, V3, R1 and other models with latent attention. mistral4: Mistral models of the same form. The
// first layers are dense. The others have experts, chosen within groups, and a shared expert. The two differ in the
// magnitude of YaRN.
//
// deepseek32 (DeepSeek V3.2) and glm-dsa (GLM 5): mistral4's form, with an indexer, which chooses the keys that all
// heads attend to. In GLM 5 several layers may share a choice.
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
    return read_indexer(RopePairs::halves, 1e-6f);
  }

  Result<> read_indexer(RopePairs pairs, float eps) {
    TESSERA_TRY(read_key_choice());
    if (n_latent_q_ == 0)
      return fail(ErrorCode::mismatch, "{}: key '{}' is missing or 0: the indexer needs the latent vector of q",
                  files_.name(), hp_.full_key("attention.q_lora_rank"));
    eps_of_keys_ = eps;
    nn::RopeConfig rope = info_.ropes[0].config;
    rope.pairs = pairs;
    key_choice_.rope = add_rope(rope);
    return {};
  }

  /// Whether a layer chooses keys. If not, it has the last choice before it.
  virtual bool chooses(int64_t /*il*/) const { return true; }

  // Prediction heads attend to all keys.
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Mistral4::list_layer(il);
    if (il >= n_layers_ || !chooses(il)) return l;
    weights_.need(block(il, "attn_q_a.weight"), {info_.n_embd, n_latent_q_}, Op::mul_mat);  // not attn_q instead
    nn::KeyChoice choice = add_key_choice();
    constexpr LinearParts kNoScale{.scale = false};
    choice.q = linear(block(il, "indexer.attn_q_b"), n_latent_q_, choice.n_heads * choice.dim, kNoScale);
    choice.k = linear(block(il, "indexer.attn_k"), info_.n_embd, choice.dim, kNoScale);
    // The order of scores does not depend on their scale, 1 / sqrt(dim * n_heads).
    choice.weights = linear(block(il, "indexer.proj"), info_.n_embd, choice.n_heads, kNoScale);
    choice.k_norm = {.kind = nn::NormKind::layer,
                     .weight = weights_.need(block(il, "indexer.k_norm.weight"), {choice.dim}, Op::layer_norm),
                     .bias = weights_.maybe(block(il, "indexer.k_norm.bias"), {choice.dim}, Op::layer_norm),
                     .eps = eps_of_keys_};
    l.attention.choice = choice;
    return l;
  }

  Value chosen_keys(LayerBuilder& s, Value q_latent, Value x, const nn::Attention& a) const override {
    if (s.layer >= n_layers_) return {};
    if (a.choice.present()) s.shared = nn::choose_keys(s.b, q_latent, x, a.choice, s.ropes, s.in, s.cache);
    return s.shared;
  }

  float eps_of_keys_ = 0.0f;
};

class GlmDsa final : public DeepSeek32 {
 public:
  using DeepSeek32::DeepSeek32;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(Mistral4::read_keys());
    TESSERA_TRY(read_indexer(RopePairs::adjacent, 0.0f));
    if (hp_.has("attention.indexer.types")) {
      TESSERA_ASSIGN(chooses_, hp_.flag_per_layer("attention.indexer.types", n_layers_));
    } else {
      // Files of models with a long context have a fixed pattern, and no key.
      constexpr int64_t kLongContext = 1 << 20, kPeriod = 4, kFirst = 2;
      for (int64_t il = 0; il < n_layers_; ++il)
        chooses_.push_back(info_.n_ctx_train < kLongContext || il < kFirst || il % kPeriod == kFirst);
    }
    if (!chooses_[0]) return fail(ErrorCode::mismatch, "{}: layer 0 chooses no keys", files_.name());
    return {};
  }

  bool chooses(int64_t il) const override { return chooses_[to_size(il)]; }

  // The multiplier of YaRN's logarithm is not used.
  float magnitude_of_scores(float /*log_multiplier*/) override { return Mistral4::magnitude_of_scores(0.0f); }

 private:
  std::vector<bool> chooses_;
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
