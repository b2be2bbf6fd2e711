// The division of a step among its prompts. Half of the step is for the first one, the most urgent, so that short
// prompts do not wait for the end of a long one. The others take what is left in their order, and the first takes what
// they leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/server/run/step_forecast.h"

namespace tessera::server {

/// Parts of prompts are multiples of it, so that prepared graphs are used again.
inline constexpr int64_t kChunkTokens = 16;

/// A prompt that may take part in a step.
struct StepPrompt {
  int64_t position = 0;   // of its next token
  int64_t n_wanted = 0;   // tokens that the step could compute of it
  double score_work = 0;  // of each of these tokens, as in StepWork
};

/// Divides n_most tokens among prompts, the most urgent first. Returns the number of tokens of each. There must be a
/// prompt.
std::vector<int64_t> divide_tokens(std::span<const StepPrompt> prompts, int64_t n_most);

/// Divides the target_ms of a step that also computes `decoding`, and at most n_most tokens of prompts. Returns the
/// number of tokens of each prompt. There must be one.
///
/// A token costs more the later its position is, so each prompt has its own forecast. The first prompt always advances,
/// by min(n_wanted, n_most, StepForecast::kLeastPrefill) or more, whatever that takes. Beside it the others may take a
/// tenth of the target even if it takes all the time.
std::vector<int64_t> divide_time(const StepForecast& forecast, const StepWork& decoding,
                                 std::span<const StepPrompt> prompts, int64_t n_most, double target_ms);

}  // namespace tessera::server
