// The log-probability of a token at its place, by the raw logits there: of generated tokens, and of the tokens of a
// prompt that a client wants scored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/sample/log_probs.h"
#include "tessera/server/run/task.h"

namespace tessera::server {

/// Returns the log-probability and the rank of `token` under the softmax of logits [n_vocab], and the n_top most
/// probable tokens. `buffer` is overwritten. token: 0 to n_vocab - 1. The result depends on the other arguments only.
TokenProbs score_token(std::span<const float> logits, int32_t token, size_t n_top, sample::TopLogProbs& buffer);

}  // namespace tessera::server
