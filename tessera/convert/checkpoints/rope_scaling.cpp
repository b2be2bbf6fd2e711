#include "tessera/convert/checkpoints/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kMaxPositions = INT32_MAX;
constexpr int64_t kMaxRotated = 1 << 16;

// The settings have several names, and some models have them for each kind of layers.
constexpr std::string_view kScalingMembers[] = {"rope_parameters.", "rope_parameters.full_attention.",
                                                "rope_parameters.compress.", "rope_scaling."};

// A name of a member under all names of the settings, which split_names() takes apart.
HubConfig::Names member(std::string& storage, std::string_view name) {
  storage.clear();
  for (const std::string_view settings : kScalingMembers) storage += std::string(settings) + std::string(name) + " ";
  return HubConfig::Names(split_names(storage));
}

Result<std::optional<double>> number_in(const ModelDraft& draft, std::string_view name) {
  std::string storage;
  return draft.config.number(member(storage, name));
}

Result<> copy_number(ModelDraft& draft, std::string_view name, std::string_view key) {
  TESSERA_ASSIGN(const auto number, number_in(draft, name));
  if (number) draft.builder.set(draft.key(key), static_cast<float>(*number));
  return {};
}

Result<> copy_count(ModelDraft& draft, std::string_view name, std::string_view key) {
  std::string storage;
  TESSERA_ASSIGN(const auto count, draft.config.integer(member(storage, name), 1, kMaxPositions));
  if (count) draft.builder.set(draft.key(key), static_cast<uint32_t>(*count));
  return {};
}

Result<> add_yarn(ModelDraft& draft) {
  TESSERA_TRY(copy_number(draft, "factor", "rope.scaling.factor"));
  TESSERA_TRY(copy_count(draft, "original_max_position_embeddings", "rope.scaling.original_context_length"));
  TESSERA_TRY(copy_number(draft, "extrapolation_factor", "rope.scaling.yarn_ext_factor"));
  TESSERA_TRY(copy_number(draft, "attn_factor", "rope.scaling.yarn_attn_factor"));
  TESSERA_TRY(copy_number(draft, "attention_factor", "rope.scaling.yarn_attn_factor"));
  TESSERA_TRY(copy_number(draft, "beta_fast", "rope.scaling.yarn_beta_fast"));
  return copy_number(draft, "beta_slow", "rope.scaling.yarn_beta_slow");
}

Result<> add_factors(ModelDraft& draft, std::string_view name, std::string_view tensor) {
  std::string storage;
  const Json* list = draft.config.find(member(storage, name));
  if (list == nullptr) return {};
  const auto refusal = [&] {
    return fail(ErrorCode::format, "{}: {}: want a list of at most {} numbers", draft.config.path(), name, kMaxRotated);
  };
  if (!list->is_array() || list->empty() || std::ssize(*list) > kMaxRotated) return refusal();
  std::vector<float> factors;
  for (const Json& item : *list) {
    if (!item.is_number()) return refusal();
    factors.push_back(static_cast<float>(item.get<double>()));
  }
  draft.tensors.push_back(computed_tensor(std::string(tensor), std::move(factors)));
  return {};
}

Result<> add_longrope(ModelDraft& draft) {
  TESSERA_TRY(add_factors(draft, "long_factor", "rope_factors_long.weight"));
  return add_factors(draft, "short_factor", "rope_factors_short.weight");
}

Result<> add_llama3(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto base, number_of(draft.config, "rope_theta rope_parameters.rope_theta"));
  TESSERA_ASSIGN(const int64_t n_rotated, head_size_of(draft.config));
  TESSERA_ASSIGN(std::vector<float> factors, llama3_factors(draft, base.value_or(10000.0), n_rotated));
  draft.tensors.push_back(computed_tensor("rope_freqs.weight", std::move(factors)));
  return {};
}

Result<> add_nothing(ModelDraft& /*draft*/) { return {}; }

Result<> add_linear(ModelDraft& draft) { return copy_number(draft, "factor", "rope.scaling.factor"); }

struct ScalingKind {
  std::string_view name;  // in configs
  std::string_view type;  // in GGUF; empty: no key
  Result<> (*add)(ModelDraft&);
};
constexpr ScalingKind kKinds[] = {
    {"linear", "linear", add_linear}, {"yarn", "yarn", add_yarn}, {"longrope", "longrope", add_longrope},
    {"su", "longrope", add_longrope}, {"llama3", "", add_llama3}, {"default", "", add_nothing},
    {"dynamic", "", add_nothing},     {"mrope", "", add_nothing}};

}  // namespace

Result<> add_rope_scaling(ModelDraft& draft) {
  std::string storage, older;
  TESSERA_ASSIGN(auto type, draft.config.text(member(storage, "rope_type")));
  if (!type) {
    TESSERA_ASSIGN(type, draft.config.text(member(older, "type")));
  }
  if (!type) return {};
  const auto* kind = std::ranges::find(kKinds, *type, &ScalingKind::name);
  if (kind == std::end(kKinds))
    return fail(ErrorCode::unsupported, "{}: rope scaling of type {} is not known", draft.config.path(),
                text::quote_text(*type));
  if (!kind->type.empty()) draft.builder.set(draft.key("rope.scaling.type"), kind->type);
  return kind->add(draft);
}

Result<std::vector<float>> llama3_factors(const ModelDraft& draft, double base, int64_t n_rotated) {
  SlowedWaves waves;
  TESSERA_ASSIGN(const auto factor, number_in(draft, "factor"));
  TESSERA_ASSIGN(const auto low, number_in(draft, "low_freq_factor"));
  TESSERA_ASSIGN(const auto high, number_in(draft, "high_freq_factor"));
  std::string storage;
  TESSERA_ASSIGN(const auto n_original,
                 draft.config.integer(member(storage, "original_max_position_embeddings"), 1, kMaxPositions));
  waves.factor = factor.value_or(waves.factor);
  waves.low_frequency = low.value_or(waves.low_frequency);
  waves.high_frequency = high.value_or(waves.high_frequency);
  waves.n_original = n_original.value_or(waves.n_original);
  if (!(waves.factor > 0) || !(waves.low_frequency > 0) || !(waves.high_frequency > waves.low_frequency))
    return fail(ErrorCode::format, "{}: factors of rope scaling are {}, {} and {}, want positive ones that ascend",
                draft.config.path(), waves.factor, waves.low_frequency, waves.high_frequency);
  if (n_rotated < 2 || n_rotated > kMaxRotated)
    return fail(ErrorCode::format, "{}: heads of {} values, want 2 to {}", draft.config.path(), n_rotated, kMaxRotated);
  return slowed_wave_factors(waves, base, n_rotated);
}

// In floats of 32 bits, as the models compute it.
std::vector<float> slowed_wave_factors(const SlowedWaves& waves, double base, int64_t n_rotated) {
  const auto n_original = static_cast<float>(waves.n_original);
  const auto factor = static_cast<float>(waves.factor);
  const auto low = static_cast<float>(waves.low_frequency), high = static_cast<float>(waves.high_frequency);
  std::vector<float> factors;
  for (int64_t i = 0; i < n_rotated; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(n_rotated);
    const float frequency = 1.0f / std::pow(static_cast<float>(base), exponent);
    const float wave = 2.0f * std::numbers::pi_v<float> / frequency;
    if (wave < n_original / high) {
      factors.push_back(1.0f);
    } else if (wave > n_original / low) {
      factors.push_back(factor);
    } else {
      const float smooth = (n_original / wave - low) / (high - low);
      factors.push_back(1.0f / ((1.0f - smooth) / factor + smooth));
    }
  }
  return factors;
}

}  // namespace tessera::convert
