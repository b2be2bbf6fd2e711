// Reading of arguments that a model wrote as JSON: an object, a string that holds an object, or null. Used by the call
// readers of the JSON shapes.
#pragma once

#include <string>
#include <string_view>

#include "tessera/text/chat/json_reader.h"

namespace tessera::text {

class ArgumentsReader {
 public:
  /// Reads from the front of text, and appends the bytes of the object to out. null and an empty string are {}.
  JsonProgress read(std::string_view text, std::string& out);

  bool is_too_deep() const { return json_.is_too_deep(); }

 private:
  enum class At : uint8_t { begin, object, text, null };

  bool begin(char c);
  JsonProgress read_value(std::string_view text, std::string& out);
  JsonProgress read_text(std::string_view text, std::string& out);
  bool read_inside(std::string_view decoded, std::string& out);

  At at_ = At::begin;
  JsonReader json_;
  JsonStringReader string_;
  bool has_begun_inside_ = false;
};

}  // namespace tessera::text
