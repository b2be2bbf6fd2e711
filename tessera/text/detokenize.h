// Converts tokens to text: a whole sequence at once, or a stream of valid UTF-8 during generation. A space that the
// tokenizer added in front of a text is removed again.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/result.h"
#include "tessera/text/tokenizer.h"

namespace tessera::text {

struct DetokenizeOptions {
  bool render_special = false;  // render control and unknown tokens as their text, else as nothing
  bool at_start = true;         // the tokens begin a text; false: they continue one, and a leading space is kept
};

/// Appends tokens to a text one by one, and stores the state of the space-prefix rule between them.
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
  bool strip_space_;  // the tokenizer would have added a space in front of text here
};

/// Returns the text of the tokens, byte for byte. It is not valid UTF-8 if byte tokens form invalid sequences. For SPM
/// vocabularies with all byte tokens, detokenize(tokenize(x)) = x unless x contains U+2581, which represents a space
/// there.
/// Error: invalid_argument for an id that is not a token.
Result<std::string> detokenize(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                               DetokenizeOptions options = {});

/// The same for tokens that arrive one by one. All returned text is valid UTF-8. An incomplete code point (at most 3
/// bytes) is held back until the next token completes it. Bytes that cannot form a code point become U+FFFD. The
/// returned parts together equal to_valid_utf8(detokenize(tokens)).
class DetokenizeStream {
 public:
  /// The tokenizer must outlive the stream.
  explicit DetokenizeStream(const Tokenizer& tokenizer, DetokenizeOptions options = {}) : writer_(tokenizer, options) {}

  /// Error: invalid_argument for an id that is not a token.
  Result<std::string> push(int64_t id);

  /// Returns the bytes held back, as U+FFFD, and leaves the stream empty.
  std::string finish();

 private:
  PieceWriter writer_;
  std::string held_;
};

}  // namespace tessera::text
