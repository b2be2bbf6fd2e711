// The tokens that something outside the sampler chain allows, such as a grammar. The chain asks for them before its
// first sampler. The engine implements it over a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::sample {

class TokenMask {
 public:
  virtual ~TokenMask() = default;

  struct Allowed {
    bool is_list = true;
    std::span<const int32_t> ids{};     // of a list: in ascending order
    std::span<const uint64_t> words{};  // otherwise: token i is bit i % 64 of word i / 64
  };
  /// The tokens that may follow. Valid until the next call. Errors: limit (finding them takes too much memory).
  virtual Result<Allowed> allowed() = 0;

  /// Lets another thread begin to find the tokens that may follow, if that takes long. The caller computes logits
  /// meanwhile. The result of allowed() is the same.
  virtual void prepare() = 0;

  /// Whether nothing can follow but the end of the text.
  virtual bool is_finished() const = 0;

  /// Tokens that must follow, as the tokenizer would write them: none if there is a choice or if tokens could spell the
  /// text in several ways. They are not part of the text yet.
  virtual std::vector<int32_t> forced() = 0;

  /// Adds a token to the text. Error: invalid_argument if it is not allowed.
  virtual Result<> accept(int32_t token) = 0;

  /// Returns to the start of the text.
  virtual void reset() = 0;

  virtual std::unique_ptr<TokenMask> clone() const = 0;
};

}  // namespace tessera::sample
