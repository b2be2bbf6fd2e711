// The parameters of a chain with the defaults of llama.cpp, as flags and requests fill them in. Creating a chain
// validates them.
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

/// Below this a temperature means the most probable token: logits that differ by 1e-4 are then e^100 apart.
inline constexpr float kMinTemperature = 1e-6f;

struct LogitBias {
  int32_t id = 0;
  float bias = 0;  // -infinity bans the token
};

struct SamplerParams {
  int64_t seed = -1;     // -1: random; whoever creates the chain draws one
  int32_t n_prev = 64;   // tokens that the chain's history holds at least
  int32_t min_keep = 0;  // candidates that top_k, typ_p, top_p, min_p and xtc leave at least
  std::vector<SamplerKind> order = default_order();

#define TESSERA_SAMPLING_PARAM(type, name, initial, min, max, description) type name = initial;
#include "tessera/sample/samplers.def"

  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<LogitBias> logit_bias = {};
};

/// A number of SamplerParams: a row of samplers.def.
struct SamplingParam {
  std::string_view name;
  std::string_view description;
  std::variant<float SamplerParams::*, int32_t SamplerParams::*> member;
  double min;
  double max;
};
std::span<const SamplingParam> sampling_params();

/// Error: invalid_argument at the first field out of its range (NaN and infinities are out of every one),
/// with the field, its value and the range.
Result<> validate(const SamplerParams& params);

}  // namespace tessera::sample
