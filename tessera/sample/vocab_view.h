// What sampling needs to know of a vocabulary; engine implements it over its tokenizer. Immutable: chains on
// several threads share one.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::sample {

class VocabView {
 public:
  virtual ~VocabView() = default;

  /// The count of tokens, which is the count of logits.
  virtual int32_t n_tokens() const = 0;

  /// Appends the bytes that a token stands for, 0 <= id < n_tokens(); they need not be whole characters.
  virtual void append_piece(int32_t id, std::string& out) const = 0;
};

}  // namespace tessera::sample
