// Tokens to text: a whole sequence at once, or a stream of valid UTF-8 while a model generates.
// The space that the tokenizer put in front of a text is taken off where it put it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/result.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text {

struct DetokenizeOptions {
  bool render_special = false;  // show control and unknown tokens as their text, else as nothing
  bool at_start = true;         // the tokens begin a text; false: they continue one, whose first space counts
};

/// Appends one token after another to a text; keeps what the prefix rule needs to know between them.
class PieceWriter {
 public:
  /// The tokenizer must outlive the writer.
  PieceWriter(const Tokenizer& tokenizer, DetokenizeOptions options)
      : tokenizer_(&tokenizer), options_(options), strip_space_(options.at_start) {}

  /// Error: invalid_argument for an id that is not a token.
  Result<> append(int64_t id, std::string& out);

 private:
  const Tokenizer* tokenizer_;
  DetokenizeOptions options_;
  bool strip_space_;  // the tokenizer would have put a space in front of text here
};

/// The text of the tokens, byte for byte: not UTF-8 where byte tokens make none. For SPM vocabularies with
/// all byte tokens, detokenize(tokenize(x)) = x unless x holds U+2581, which is their space.
/// Error: invalid_argument for an id that is not a token.
Result<std::string> detokenize(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                               DetokenizeOptions options = {});

/// The same for tokens that arrive one by one. All that it returns is valid UTF-8: an unfinished code point
/// (at most 3 bytes) is held back until the next token completes it, and bytes that cannot become one turn
/// into U+FFFD. The returned parts together are to_valid_utf8(detokenize(tokens)).
class DetokenizeStream {
 public:
  /// The tokenizer must outlive the stream.
  explicit DetokenizeStream(const Tokenizer& tokenizer, DetokenizeOptions options = {}) : writer_(tokenizer, options) {}

  /// Error: invalid_argument for an id that is not a token.
  Result<std::string> push(int64_t id);

  /// What is held back, as U+FFFD; the stream is then empty.
  std::string finish();

 private:
  PieceWriter writer_;
  std::string held_;
};

}  // namespace tessera::text
