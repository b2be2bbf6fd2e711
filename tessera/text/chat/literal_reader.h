// Reading of a literal value of Python or of Gemma's call syntax, and conversion to JSON while it arrives. Used by the
// reader of function calls.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/mark_set.h"

namespace tessera::text {

enum class LiteralSyntax : uint8_t {
  python,  // "x", 'x', None, True, {"k": 1}; the words of JSON too
  gemma,   // <|"|>x<|"|>, null, true, {k:1}
};

class LiteralReader {
 public:
  explicit LiteralReader(LiteralSyntax syntax);

  enum class State : uint8_t {
    wait,  // the bytes may begin a mark, more are needed
    more,  // n_bytes were read, and the value goes on
    done,  // n_bytes were read, and the value is complete
    bad,   // n_bytes were read; the value is no literal
  };
  struct Progress {
    State state;
    size_t n_bytes = 0;
  };

  /// Reads one part of a value from the front of text, which is not empty, and appends its JSON to out. The byte after
  /// a number or a word is needed to end it, and is not read.
  Progress read(std::string_view text, bool is_last, std::string& out);

 private:
  enum class At : uint8_t { value, value_or_end, key, key_or_end, colon, comma_or_end, string, bare_key, escape, word };

  Progress read_value(std::string_view text, bool is_last, std::string& out);
  Progress read_string(std::string_view text, bool is_last, std::string& out);
  Progress read_escape(char c, std::string& out);
  Progress read_key(std::string_view text, bool is_last, std::string& out);
  Progress read_bare_key(std::string_view text, std::string& out);
  Progress read_word(std::string_view text, std::string& out);
  Progress read_comma(char c, std::string& out);
  Progress end_value(size_t n_bytes);
  Progress end_string(size_t n_bytes, std::string& out);
  size_t quote_bytes(std::string_view text, bool is_last, bool& waits);

  LiteralSyntax syntax_;
  MarkSet gemma_quote_;
  At at_ = At::value;
  char quote_ = 0;       // the quote that ends the string
  bool is_key_ = false;  // the string is a key
  std::string part_;     // a word, a bare key, or an escape so far
  std::array<char, kMaxJsonDepth> closers_{};
  size_t depth_ = 0;
};

}  // namespace tessera::text
