// Converts text to tokens. The base class implements the common parts: BOS and EOS, special tokens spelled out in the
// text, and the white space that they absorb. Each tokenizer model has one file, which converts the text between
// special tokens, and a row in the table of tokenizer.cpp. Immutable after create(), so any number of threads may share
// a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/special_matcher.h"
#include "tessera/text/vocab.h"

namespace tessera::text {

inline constexpr size_t kMaxTextBytes = size_t{1} << 29;

struct TokenizeOptions {
  bool add_special = false;            // add BOS in front and EOS at the end as the vocabulary specifies
  bool parse_special = false;          // parse control tokens spelled out in the text; never for user text
  std::span<const ByteRange> given{};  // parts of the text that a user wrote: no control token overlaps them
};

class Tokenizer {
 public:
  /// Creates the tokenizer of vocab->model(). A model without vocabulary gets one whose tokenize() reports that.
  /// Errors: unsupported for an unknown model, with a list of the supported ones; format for malformed merges or a
  /// malformed character map.
  static Result<std::unique_ptr<const Tokenizer>> create(std::shared_ptr<const Vocab> vocab);

  virtual ~Tokenizer() = default;

  const Vocab& vocab() const { return *vocab_; }

  /// Returns the tokens of `text`, which may contain any bytes. User-defined tokens are always recognised, control
  /// tokens only with parse_special. O(n log n) time for n bytes, constant stack.
  /// Errors: limit above kMaxTextBytes; not_found for text that the vocabulary cannot spell.
  Result<std::vector<int32_t>> tokenize(std::string_view text, TokenizeOptions options = {}) const;

  /// Appends the bytes of a token; requires vocab().contains(id). Control and unknown tokens give their stored text,
  /// and byte tokens one byte. Characters that the tokenizer substitutes for spaces become spaces again.
  virtual void append_piece(int32_t id, std::string& out) const = 0;

  /// True if tokenize() adds a space in front of a text, which detokenizing removes again.
  virtual bool adds_space_prefix() const { return vocab_->add_space_prefix(); }

  /// Warnings about the file for the user, one line each: an unknown pre-tokenizer and its replacement.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  explicit Tokenizer(std::shared_ptr<const Vocab> vocab) : vocab_(std::move(vocab)), specials_(*vocab_) {}

  /// Appends the tokens of a text without special tokens. The text is never empty. after_special: it is the first of
  /// the whole text, or follows a special token.
  virtual Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const = 0;

  /// Tokens that add_special adds before and after the others.
  virtual std::optional<int32_t> first_token() const;
  virtual std::optional<int32_t> last_token() const;

  void warn(std::string line) { warnings_.push_back(std::move(line)); }

 private:
  std::shared_ptr<const Vocab> vocab_;
  SpecialMatcher specials_;
  std::vector<std::string> warnings_;
};

}  // namespace tessera::text
