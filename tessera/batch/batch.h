// Tokens to decode: any mix of sequences, in order. The engine checks a batch, splits it into micro-batches and decodes
// these. Results do not depend on the split.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/partition.h"

namespace tessera {

struct BatchToken {
  int32_t token = 0;
  int32_t position = 0;  // in its sequence, from 0
  int32_t sequence = 0;
  bool wants_logits = false;  // the logits after this token are an output of the batch
};

class Batch {
 public:
  void add(BatchToken token) { tokens_.push_back(token); }
  void clear() { tokens_.clear(); }
  std::span<const BatchToken> tokens() const { return tokens_; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t n_outputs() const;

  /// Returns the batch of a prompt: tokens at consecutive positions from `position` on, with logits for the last only.
  static Batch prompt(std::span<const int32_t> tokens, int32_t position, int32_t sequence);

 private:
  std::vector<BatchToken> tokens_;
};

/// Splits the batch into consecutive parts of at most n_ubatch (> 0) tokens.
std::vector<Range> split(const Batch& batch, int64_t n_ubatch);

}  // namespace tessera
