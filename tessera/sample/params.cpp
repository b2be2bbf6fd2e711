// The ranges of the sampling parameters. They are wide, but within them no formula of a sampler divides by zero,
// overflows an integer or allocates without bound.
#include "tessera/sample/params.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/index.h"

namespace tessera::sample {
namespace {

constexpr SamplingParam kParams[] = {
#define TESSERA_SAMPLING_PARAM(type, name, initial, min, max, description) \
  {#name, description, &SamplerParams::name, min, max},
#include "tessera/sample/samplers.def"
};

constexpr int32_t kMaxPrevious = 1 << 20;
constexpr int64_t kMaxSeed = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxBreakers = 256;
constexpr size_t kMaxBreakerBytes = 256;
constexpr size_t kMaxBiases = size_t{1} << 20;

template <class T>
Result<> check_range(std::string_view name, T value, T min, T max) {
  // This form of the comparison also rejects NaN, which compares false.
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
    const auto kind = to_size(params.order[i]);
    if (kind >= sampler_table().size() || sampler_table()[kind].letter == '\0')
      return fail(ErrorCode::invalid_argument, "order: entry {} is {}, not a step to arrange", i, kind);
    if (std::find(params.order.begin(), params.order.begin() + static_cast<ptrdiff_t>(i), params.order[i]) !=
        params.order.begin() + static_cast<ptrdiff_t>(i))
      return fail(ErrorCode::invalid_argument, "order: {} appears twice, limit 1", sampler_table()[kind].name);
  }
  return {};
}

}  // namespace

std::span<const SamplingParam> sampling_params() { return kParams; }

Result<> validate(const SamplerParams& params) {
  for (const SamplingParam& param : kParams)
    TESSERA_TRY(std::visit(
        [&]<class T>(T SamplerParams::*member) {
          return check_range(param.name, params.*member, static_cast<T>(param.min), static_cast<T>(param.max));
        },
        param.member));
  TESSERA_TRY(check_range("n_prev", params.n_prev, 0, kMaxPrevious));
  TESSERA_TRY(check_range("min_keep", params.min_keep, 0, INT32_MAX));
  TESSERA_TRY(check_range<int64_t>("seed", params.seed, -1, kMaxSeed));
  return validate_lists(params);
}

}  // namespace tessera::sample
