// Probabilities of tokens in answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/server/json/writer.h"
#include "tessera/server/run/task.h"
#include "tessera/text/tokenizer.h"

namespace tessera::server {

enum class ProbsForm : uint8_t {
  raw,             // logarithms before the samplers: logprob, top_logprobs
  after_samplers,  // probabilities after them: prob, top_probs
};

/// Writes {"id", "token", "bytes", "logprob", "top_logprobs": [...]}, with at most n_top others.
void write_token_probs(JsonWriter& writer, const TokenProbs& probs, const text::Tokenizer& tokenizer, ProbsForm form,
                       size_t n_top = SIZE_MAX);

/// The same for a token without probabilities: its logprob is null.
void write_unscored_token(JsonWriter& writer, int32_t token, const text::Tokenizer& tokenizer);

/// The bytes of a token; "" for a model without vocabulary.
std::string token_bytes(const text::Tokenizer& tokenizer, int32_t token);

}  // namespace tessera::server
