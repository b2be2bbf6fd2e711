#include "tessera/models/hparams.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"

namespace tessera {

namespace {

constexpr int64_t kMaxVocab = int64_t{1} << 24;

}  // namespace

std::string HparamReader::full_key(std::string_view key) const { return keys::arch_key(architecture_, key); }

bool HparamReader::has(std::string_view key) const { return files_.metadata().find(full_key(key)) != nullptr; }

Result<int64_t> HparamReader::integer(std::string_view key, int64_t min, int64_t max) const {
  TESSERA_ASSIGN(const auto value, files_.metadata().get<int64_t>(full_key(key)));
  if (value < min || value > max)
    return fail(ErrorCode::limit, "{}: key '{}': {}, want {} to {}", files_.name(), full_key(key), value, min, max);
  return value;
}

Result<int64_t> HparamReader::integer_or(std::string_view key, int64_t absent, int64_t min, int64_t max) const {
  if (!has(key)) return absent;
  return integer(key, min, max);
}

Result<std::vector<int64_t>> HparamReader::per_layer(std::string_view key, int64_t n_layers, int64_t min,
                                                     int64_t max) const {
  TESSERA_ASSIGN(auto values, files_.metadata().get_per_layer<int64_t>(full_key(key), to_size(n_layers)));
  for (size_t il = 0; il < values.size(); ++il)
    if (values[il] < min || values[il] > max)
      return fail(ErrorCode::limit, "{}: key '{}': {} in layer {}, want {} to {}", files_.name(), full_key(key),
                  values[il], il, min, max);
  return values;
}

Result<float> HparamReader::real(std::string_view key, float min, float max) const {
  TESSERA_ASSIGN(const auto value, files_.metadata().get<float>(full_key(key)));
  if (!(value >= min && value <= max))
    return fail(ErrorCode::limit, "{}: key '{}': {}, want {} to {}", files_.name(), full_key(key), value, min, max);
  return value;
}

Result<float> HparamReader::real_or(std::string_view key, float absent, float min, float max) const {
  if (!has(key)) return absent;
  return real(key, min, max);
}

Result<std::vector<float>> HparamReader::real_per_layer(std::string_view key, int64_t n_layers) const {
  if (!has(key)) return std::vector<float>(to_size(n_layers), 0.0f);
  TESSERA_ASSIGN(auto values, files_.metadata().get_per_layer<float>(full_key(key), to_size(n_layers)));
  for (size_t il = 0; il < values.size(); ++il)
    if (!(values[il] >= 0.0f && std::isfinite(values[il])))
      return fail(ErrorCode::limit, "{}: key '{}': {} in layer {}, want a finite number >= 0", files_.name(),
                  full_key(key), values[il], il);
  return values;
}

Result<bool> HparamReader::flag(std::string_view key) const { return files_.metadata().get<bool>(full_key(key)); }

Result<bool> HparamReader::flag_or(std::string_view key, bool absent) const { return has(key) ? flag(key) : absent; }

Result<std::vector<bool>> HparamReader::flag_per_layer(std::string_view key, int64_t n_layers) const {
  auto flags = files_.metadata().get_per_layer<bool>(full_key(key), to_size(n_layers));
  if (flags) return flags;
  // Some files have the numbers 0 and 1.
  const auto numbers = files_.metadata().get_per_layer<int64_t>(full_key(key), to_size(n_layers));
  if (!numbers || std::ranges::any_of(*numbers, [](int64_t n) { return n < 0 || n > 1; })) return flags;
  return std::vector<bool>(numbers->begin(), numbers->end());
}

Result<int64_t> HparamReader::n_vocab() const {
  const GgufValue* tokens = files_.metadata().find(keys::kTokens);
  if (tokens != nullptr && tokens->is_array() && tokens->size() > 0 && tokens->size() <= to_size(kMaxVocab))
    return static_cast<int64_t>(tokens->size());
  if (has("vocab_size")) return integer("vocab_size", 1, kMaxVocab);
  const ModelFiles::Tensor* embedding = files_.find_tensor("token_embd.weight");
  if (embedding == nullptr) return fail(ErrorCode::not_found, "{}: tensor token_embd.weight is missing", files_.name());
  return embedding->info.shape[1];
}

Result<nn::RopeConfig> HparamReader::rope(int64_t n_ctx_train, const RopeOverrides& overrides) const {
  constexpr float kMaxFactor = 65536.0f, kMaxBase = 1e12f, kMaxBeta = 1e6f;
  nn::RopeConfig config;
  TESSERA_ASSIGN(config.freq_base, real_or("rope.freq_base", 10000.0f, 1.0f + 1e-3f, kMaxBase));
  TESSERA_ASSIGN(config.original_context,
                 integer_or("rope.scaling.original_context_length", n_ctx_train, 1, kMaxContext));
  TESSERA_ASSIGN(config.attn_factor, real_or("rope.scaling.attn_factor", 1.0f, 1e-6f, 1e6f));
  // 0 means "not scaled". The older key is read if the newer one is absent.
  TESSERA_ASSIGN(const float older, real_or("rope.scale_linear", 0.0f, 0.0f, kMaxFactor));
  TESSERA_ASSIGN(const float factor, real_or("rope.scaling.factor", older, 0.0f, kMaxFactor));
  config.factor = factor == 0.0f ? 1.0f : factor;
  std::string_view name = "linear";
  if (has("rope.scaling.type")) {
    TESSERA_ASSIGN(name, files_.metadata().get<std::string_view>(full_key("rope.scaling.type")));
  }
  auto scaling = nn::rope_scaling_from_name(name);
  if (!scaling) return forward_error(scaling, files_.name());
  config.scaling = overrides.scaling.value_or(*scaling);
  config.factor = overrides.factor.value_or(config.factor);
  config.freq_base = overrides.freq_base.value_or(config.freq_base);
  config.original_context = overrides.original_context.value_or(config.original_context);
  config.attn_factor = overrides.attn_factor.value_or(config.attn_factor);
  config.yarn_ext = overrides.yarn_ext.value_or(config.yarn_ext);
  config.yarn_beta_fast = overrides.yarn_beta_fast.value_or(config.yarn_beta_fast);
  config.yarn_beta_slow = overrides.yarn_beta_slow.value_or(config.yarn_beta_slow);
  const auto in_range = [](float x, float min, float max) { return x >= min && x <= max; };
  if (!in_range(config.factor, 1.0f / kMaxFactor, kMaxFactor) || !in_range(config.freq_base, 1.0f, kMaxBase) ||
      !in_range(config.yarn_beta_fast, 1e-6f, kMaxBeta) || !in_range(config.yarn_beta_slow, 1e-6f, kMaxBeta) ||
      !in_range(config.attn_factor, 1e-6f, 1e6f) || config.original_context < 1)
    return fail(ErrorCode::limit, "{}: rope settings are out of range", files_.name());
  return config;
}

}  // namespace tessera
