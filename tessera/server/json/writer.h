// Writes JSON by appending to a string, without a tree in between: token events are written thousands of times a
// second. Commas are the writer's, the nesting is the caller's. The output is valid JSON for any bytes and numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/json/json.h"

namespace tessera::server {

/// Appends the text in quotes. Bytes that are not UTF-8 become U+FFFD, control characters become escapes.
void append_json_text(std::string& out, std::string_view text);

class JsonWriter {
 public:
  /// `out` outlives this.
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return begin('{'); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('['); }
  JsonWriter& end_array() { return end(']'); }

  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool value);
  JsonWriter& value(std::nullptr_t);
  /// Numbers in their shortest form that reads back as the same float or double. Infinities and NaN become null.
  JsonWriter& value(float value);
  JsonWriter& value(double value);
  template <std::integral T>
  JsonWriter& value(T value) {
    if constexpr (std::signed_integral<T>) return integer(value);
    return unsigned_integer(value);
  }
  /// A whole tree, without recursion.
  JsonWriter& tree(const Json& tree);
  /// A logarithm of a probability: -infinity becomes the lowest float, -3.4028235e+38, as clients want a number.
  JsonWriter& logprob(double log_probability);
  /// JSON that is written already.
  JsonWriter& raw(std::string_view json);

  /// A member of an object: key and value.
  template <class T>
  JsonWriter& member(std::string_view name, const T& value_of) {
    return key(name).value(value_of);
  }

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  JsonWriter& integer(int64_t value);
  JsonWriter& unsigned_integer(uint64_t value);
  void separate() {
    if (needs_comma_) out_ += ',';
    needs_comma_ = true;
  }

  std::string& out_;
  bool needs_comma_ = false;  // a value precedes in this container
};

/// The tree as text.
std::string json_text(const Json& tree);

}  // namespace tessera::server
