// The view of a vocabulary that sampling needs. The engine implements it over its tokenizer. Immutable, so chains on
// several threads may share one.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::sample {

class VocabView {
 public:
  virtual ~VocabView() = default;

  /// Number of tokens, which equals the number of logits.
  virtual int32_t n_tokens() const = 0;

  /// Appends the bytes of a token, 0 <= id < n_tokens(). They need not be whole characters.
  virtual void append_piece(int32_t id, std::string& out) const = 0;
};

}  // namespace tessera::sample
