// Operators of the template language, with Python's rules. Every operation counts the elements and bytes that it
// visits. Errors: invalid_argument (kinds that do not fit), not_found (an undefined operand), limit.
#pragma once

#include <compare>
#include <optional>

#include "tessera/text/template/numbers.h"
#include "tessera/text/template/program.h"
#include "tessera/text/template/runtime.h"

namespace tessera::text::jinja {

/// The error of an undefined value: "'NAME' is undefined".
std::unexpected<Error> undefined_error(const Value& value);

bool is_true(const Value& value);

Result<Value> apply(Runtime& runtime, Arithmetic op, const Value& a, const Value& b);

/// Both values as text, joined.
Result<Value> concat(Runtime& runtime, const Value& a, const Value& b);

Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);
Result<bool> equal(Runtime& runtime, const Value& a, const Value& b);
/// The order of numbers, texts, lists and tuples.
Result<std::partial_ordering> order(Runtime& runtime, const Value& a, const Value& b);
Result<bool> contains(Runtime& runtime, const Value& container, const Value& value);

/// The elements of a list, a tuple, a dict (its keys), a text (its characters) or an undefined value (none). A list or
/// a tuple is returned itself.
Result<List*> elements(Runtime& runtime, const Value& value);

/// Number of elements or characters.
Result<size_t> length(Runtime& runtime, const Value& value);

/// object[key], without methods; undefined if there is no such element.
Result<Value> item(Runtime& runtime, const Value& object, const Value& key);

/// object[start:stop:step]; bounds may be none.
Result<Value> slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

/// Byte of the first occurrence of `part` at or after `begin`, or npos. Linear in the size of the text.
size_t find_text(std::string_view text, std::string_view part, size_t begin);
/// Byte of the last occurrence, or npos. Linear in the size of the text.
size_t find_last_text(std::string_view text, std::string_view part);

}  // namespace tessera::text::jinja
