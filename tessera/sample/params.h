// The parameters of a chain with the defaults of llama.cpp, set from flags and requests. They are validated when a
// chain is created.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/sample/order.h"

namespace tessera::sample {

/// A temperature below this selects the most probable token. Logits that differ by 1e-4 would differ by a factor of
/// e^100 at it.
inline constexpr float kMinTemperature = 1e-6f;

struct LogitBias {
  int32_t id = 0;
  float bias = 0;  // -infinity bans the token
};

struct SamplerParams {
  int64_t seed = -1;     // -1: random; the creator of the chain draws one
  int32_t n_prev = 64;   // minimum number of tokens in the chain's history
  int32_t min_keep = 0;  // minimum number of candidates that top_k, typ_p, top_p, min_p and xtc leave
  std::vector<SamplerKind> order = default_order();

#define TESSERA_SAMPLING_PARAM(type, name, initial, min, max, description) type name = initial;
#include "tessera/sample/samplers.def"

  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<LogitBias> logit_bias = {};
};

/// A numeric field of SamplerParams: a row of samplers.def.
struct SamplingParam {
  std::string_view name;
  std::string_view description;
  std::variant<float SamplerParams::*, int32_t SamplerParams::*> member;
  double min;
  double max;
};
std::span<const SamplingParam> sampling_params();

/// Error: invalid_argument at the first field out of its range, with the field, its value and the range. NaN and
/// infinities are out of every range.
Result<> validate(const SamplerParams& params);

}  // namespace tessera::sample
