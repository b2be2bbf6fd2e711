// Text of values: Python's str() and repr(), JSON as json.dumps writes it, and % formatting. All keep the marks of the
// texts inside. Errors: limit; invalid_argument.
#pragma once

#include <optional>
#include <string>

#include "tessera/text/template/runtime.h"

namespace tessera::text::jinja {

/// Appends str(value), which is what {{ value }} prints.
Result<> append_text(Runtime& runtime, const Value& value, MarkedTextBuilder& builder);

/// The text of a value; a text is returned itself.
Result<Value> text_of(Runtime& runtime, const Value& value);

struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::optional<size_t> indent{};  // blanks per level; without: one line
  bool escapes_non_ascii = false;
  bool sorts_keys = false;
};

/// Appends the value as JSON. Undefined values are null. Errors: invalid_argument (functions, other objects); limit.
Result<> append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedTextBuilder& builder);

/// format % values, for a tuple, a dict or one value.
Result<Value> format_percent(Runtime& runtime, const Value& format, const Value& values);

/// Python's format.format(...): {}, {0}, {name} and {name:>8.2f}.
struct Arguments;
Result<Value> format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

}  // namespace tessera::text::jinja
