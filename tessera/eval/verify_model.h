// The checks of `tessera verify` that need more than the values of a file: its tokenizer, and its logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/eval/reference_logits.h"
#include "tessera/gguf/split.h"

namespace tessera::eval {

/// A tokenizer that restores texts.
struct TokenizerCheck {
  std::string model;
  uint64_t n_tokens = 0;
  uint64_t n_round_trips = 0;  // 0: this tokenizer does not guarantee them
};

/// Checks the tokenizer of a model. Nothing for a file without a vocabulary, and for a tokenizer that is not
/// implemented; `warning` then says so. Errors: those of load_tokenizer() and convert::check_round_trips().
Result<std::optional<TokenizerCheck>> check_tokenizer(const ModelFiles& files, std::string& warning);

/// Computes the logits of a reference with a session that fit_to_logits() has set up. Errors: mismatch (their error is
/// above the limit); those of for_each_logits().
Result<> check_logits(Session& session, ReferenceLogits& reference, double max_nmse, const CancelToken& cancel);

}  // namespace tessera::eval
