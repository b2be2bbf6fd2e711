// Reading of JSON that arrives in pieces: one string, or one value of any kind. The readers check every byte against
// RFC 8259, keep a few bytes of state, and never recurse. The call readers use them on text of a model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::text {

inline constexpr size_t kMaxJsonDepth = 64;

inline constexpr std::string_view kJsonBlanks = " \t\r\n";

enum class JsonState : uint8_t {
  more,  // all bytes were read, and the value goes on
  done,  // the value ends with the last byte that was read
  bad,   // the first byte that was not read cannot be part of the value
};

struct JsonProgress {
  size_t n_bytes;  // bytes that were read
  JsonState state;
};

/// Reads the rest of a JSON string after its opening quote.
class JsonStringReader {
 public:
  /// Reads bytes up to the closing quote, and appends the decoded text to *out unless out is null. An escaped surrogate
  /// must be half of a pair.
  JsonProgress read(std::string_view text, std::string* out);

 private:
  enum class At : uint8_t { text, escape, hex, low_backslash, low_u };

  bool read_one(char c, std::string* out);
  bool read_hex(char c, std::string* out);

  At at_ = At::text;
  uint8_t n_hex_ = 0;
  uint32_t code_ = 0;
  uint32_t high_ = 0;  // a high surrogate that waits for its low one, or 0
};

/// Reads one JSON value, with at most kMaxJsonDepth arrays and objects inside one another. Blanks before it are read.
class JsonReader {
 public:
  JsonProgress read(std::string_view text);

  /// Whether the bytes so far are a value. A number is complete without the byte that follows it.
  bool is_complete() const;

  /// Whether the value was refused for its depth.
  bool is_too_deep() const { return is_too_deep_; }

 private:
  enum class At : uint8_t {
    value,
    value_or_end,
    key,
    key_or_end,
    colon,
    comma_or_end,
    string,
    key_string,
    word,
    number,
    done,
  };
  enum class Digits : uint8_t { minus, zero, whole, point, fraction, e, sign, exponent };

  bool read_one(char c);
  bool begin_value(char c);
  bool open(char bracket);
  bool close(char bracket);
  bool end_value();
  bool read_number(char c);
  bool is_number() const;

  At at_ = At::value;
  Digits digits_ = Digits::minus;
  JsonStringReader string_;
  std::string_view word_;  // the rest of true, false or null
  std::array<char, kMaxJsonDepth> closers_{};
  size_t depth_ = 0;
  bool is_too_deep_ = false;
};

/// Returns the text as the inside of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace tessera::text
