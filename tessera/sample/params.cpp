// The ranges of the sampling parameters. They are wide, and such that no formula of a sampler divides by
// zero, overflows an integer or allocates without bound inside them.
#include "tessera/sample/params.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::sample {
namespace {

template <class T>
struct Field {
  std::string_view name;
  T SamplerParams::*member;
  T min;
  T max;
};

constexpr Field<float> kRealFields[] = {
    {"temp", &SamplerParams::temp, -1000, 1000},
    {"dynatemp_range", &SamplerParams::dynatemp_range, 0, 1000},
    {"dynatemp_exponent", &SamplerParams::dynatemp_exponent, 0, 1000},
    {"top_p", &SamplerParams::top_p, 0, 1},
    {"min_p", &SamplerParams::min_p, 0, 1},
    {"typ_p", &SamplerParams::typ_p, 0, 1},
    {"top_n_sigma", &SamplerParams::top_n_sigma, -1, 1000},
    {"xtc_probability", &SamplerParams::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplerParams::xtc_threshold, 0, 1},
    {"repeat_penalty", &SamplerParams::repeat_penalty, 0.001f, 1000},
    {"presence_penalty", &SamplerParams::presence_penalty, -1000, 1000},
    {"frequency_penalty", &SamplerParams::frequency_penalty, -1000, 1000},
    {"dry_multiplier", &SamplerParams::dry_multiplier, 0, 1000},
    {"dry_base", &SamplerParams::dry_base, 1, 1000},
    {"mirostat_tau", &SamplerParams::mirostat_tau, 0, 100},
    {"mirostat_eta", &SamplerParams::mirostat_eta, 0, 10},
};

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

constexpr Field<int32_t> kIntegerFields[] = {
    {"n_prev", &SamplerParams::n_prev, 0, 1 << 20},
    {"min_keep", &SamplerParams::min_keep, 0, kInt32Max},
    {"top_k", &SamplerParams::top_k, -1, kInt32Max},
    {"repeat_last_n", &SamplerParams::repeat_last_n, -1, kInt32Max},
    {"dry_allowed_length", &SamplerParams::dry_allowed_length, 1, kInt32Max},
    {"dry_penalty_last_n", &SamplerParams::dry_penalty_last_n, -1, kInt32Max},
    {"mirostat", &SamplerParams::mirostat, 0, 2},
};

constexpr int64_t kMaxSeed = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxBreakers = 256;
constexpr size_t kMaxBreakerBytes = 256;
constexpr size_t kMaxBiases = size_t{1} << 20;

template <class T>
Result<> check_range(std::string_view name, T value, T min, T max) {
  // Written so that NaN, which compares false, fails.
  if (!(value >= min && value <= max))
    return fail(ErrorCode::invalid_argument, "{}: got {}, range {} to {}", name, value, min, max);
  return {};
}

Result<> validate_lists(const SamplerParams& params) {
  TESSERA_TRY(
      check_range<size_t>("dry_sequence_breakers, count", params.dry_sequence_breakers.size(), 0, kMaxBreakers));
  for (const std::string& breaker : params.dry_sequence_breakers)
    TESSERA_TRY(check_range<size_t>("dry_sequence_breakers, bytes", breaker.size(), 1, kMaxBreakerBytes));
  TESSERA_TRY(check_range<size_t>("logit_bias, count", params.logit_bias.size(), 0, kMaxBiases));
  for (const LogitBias& entry : params.logit_bias) {
    if (!std::isfinite(entry.bias) && entry.bias != -std::numeric_limits<float>::infinity())
      return fail(ErrorCode::invalid_argument, "logit_bias of token {}: got {}, want a finite number or -inf", entry.id,
                  entry.bias);
  }
  for (size_t i = 0; i < params.order.size(); ++i) {
    const auto kind = static_cast<size_t>(params.order[i]);
    if (kind >= sampler_table().size() || sampler_table()[kind].letter == '\0')
      return fail(ErrorCode::invalid_argument, "order: entry {} is {}, not a step to arrange", i, kind);
    if (std::find(params.order.begin(), params.order.begin() + static_cast<ptrdiff_t>(i), params.order[i]) !=
        params.order.begin() + static_cast<ptrdiff_t>(i))
      return fail(ErrorCode::invalid_argument, "order: {} stands in it twice, limit 1", sampler_table()[kind].name);
  }
  return {};
}

}  // namespace

Result<> validate(const SamplerParams& params) {
  for (const auto& field : kRealFields)
    TESSERA_TRY(check_range(field.name, params.*field.member, field.min, field.max));
  for (const auto& field : kIntegerFields)
    TESSERA_TRY(check_range(field.name, params.*field.member, field.min, field.max));
  TESSERA_TRY(check_range<int64_t>("seed", params.seed, -1, kMaxSeed));
  return validate_lists(params);
}

}  // namespace tessera::sample
