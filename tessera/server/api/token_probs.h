// Probabilities of tokens in answers.
#pragma once

#include "tessera/server/json/writer.h"
#include "tessera/server/run/task.h"
#include "tessera/text/tokenizer.h"

namespace tessera::server {

enum class ProbsForm : uint8_t {
  raw,             // logarithms before the samplers: logprob, top_logprobs
  after_samplers,  // probabilities after them: prob, top_probs
};

/// Writes {"id", "token", "bytes", "logprob", "top_logprobs": [...]}.
void write_token_probs(JsonWriter& writer, const TokenProbs& probs, const text::Tokenizer& tokenizer, ProbsForm form);

/// The bytes of a token; "" for a model without vocabulary.
std::string token_bytes(const text::Tokenizer& tokenizer, int32_t token);

}  // namespace tessera::server
