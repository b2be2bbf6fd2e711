// Text to tokens. The base class does what all tokenizers share: BOS and EOS, special tokens spelled out in
// the text and the whitespace they swallow; one file per tokenizer model does the text between them and has
// a row in the table of tokenizer.cpp. Immutable after create(): any number of threads may share one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/special_matcher.h"
#include "tessera/text/vocab.h"

namespace tessera::text {

inline constexpr size_t kMaxTextBytes = size_t{1} << 29;

struct TokenizeOptions {
  bool add_special = false;    // BOS in front and EOS at the end where the vocabulary says so
  bool parse_special = false;  // control tokens spelled out in the text become those tokens; never for user text
};

class Tokenizer {
 public:
  /// The tokenizer of vocab->model(). Error: unsupported when it is not among those built; its message
  /// lists them; format for merges or a character map that are not what they should be. A model without
  /// vocabulary gets one whose tokenize() says so.
  static Result<std::unique_ptr<const Tokenizer>> create(std::shared_ptr<const Vocab> vocab);

  virtual ~Tokenizer() = default;

  const Vocab& vocab() const { return *vocab_; }

  /// The tokens of `text`, any bytes. User-defined tokens are found in it always, control tokens with
  /// parse_special. O(n log n) time for n bytes, constant stack.
  /// Errors: limit above kMaxTextBytes; not_found for text that the vocabulary cannot spell.
  Result<std::vector<int32_t>> tokenize(std::string_view text, TokenizeOptions options = {}) const;

  /// Appends the bytes that a token stands for, vocab().contains(id): the text of control and unknown tokens
  /// as stored, one byte for byte tokens, and spaces for what the tokenizer turned them into.
  virtual void append_piece(int32_t id, std::string& out) const = 0;

  /// True where tokenize() puts a space in front of a text, which detokenizing takes off again.
  virtual bool adds_space_prefix() const { return vocab_->add_space_prefix(); }

  /// What a user should know about the file, a line each: an unknown pre-tokenizer and what stands in for it.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  explicit Tokenizer(std::shared_ptr<const Vocab> vocab) : vocab_(std::move(vocab)), specials_(*vocab_) {}

  /// Appends the tokens of text without special tokens; never empty. after_special: it is the first of
  /// the text, or follows a special token.
  virtual Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const = 0;

  /// What add_special puts in front of the tokens and after them.
  virtual std::optional<int32_t> first_token() const;
  virtual std::optional<int32_t> last_token() const;

  void warn(std::string line) { warnings_.push_back(std::move(line)); }

 private:
  std::shared_ptr<const Vocab> vocab_;
  SpecialMatcher specials_;
  std::vector<std::string> warnings_;
};

}  // namespace tessera::text
