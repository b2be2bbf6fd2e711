// The parameters of a chain with the reference's defaults, as flags and requests fill them in. Nothing is
// trusted before validate(): the chain checks them itself when it is created.
#pragma once

#include <cstdint>
#include <string>
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

  float temp = 0.80f;        // below kMinTemperature: greedy
  float dynatemp_range = 0;  // > 0: the temperature is between temp -+ this, by the entropy
  float dynatemp_exponent = 1;

  int32_t top_k = 40;           // <= 0: off
  float top_p = 0.95f;          // 1: off
  float min_p = 0.05f;          // 0: off
  float typ_p = 1;              // 1: off
  float top_n_sigma = -1;       // <= 0: off
  float xtc_probability = 0;    // 0: off
  float xtc_threshold = 0.10f;  // > 0.5: off, as no two tokens can pass it

  int32_t repeat_last_n = 64;  // 0: off, -1: the whole context
  float repeat_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;

  float dry_multiplier = 0;  // 0: off
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = 64;  // 0: off, -1: the whole context
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};

  int32_t mirostat = 0;  // 0: off, 1, 2: the version
  float mirostat_tau = 5;
  float mirostat_eta = 0.1f;

  std::vector<LogitBias> logit_bias = {};
};

/// Error: invalid_argument at the first field out of its range (NaN and infinities are out of every one),
/// with the field, its value and the range.
Result<> validate(const SamplerParams& params);

}  // namespace tessera::sample
