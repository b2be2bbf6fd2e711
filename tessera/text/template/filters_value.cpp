// Filters on numbers and on values of any kind.
#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/json_reader.h"
#include "tessera/text/template/members.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"

namespace tessera::text::jinja {
namespace {

std::string_view without_space(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  return text;
}

std::unexpected<Error> not_a_number(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  return fail(ErrorCode::invalid_argument, "{} is not a number", to_string(value.kind()));
}

// Python's int(float(text)), the second try of the filter int.
std::optional<int64_t> integer_of_real_text(std::string_view text) {
  const auto real = parse_real(text);
  if (!real) return std::nullopt;
  const auto whole = truncate(*real);
  return whole ? std::optional(*whole) : std::nullopt;
}

// separators=(ITEM, KEY) and the other arguments of tojson.
Result<JsonStyle> json_style(const Bound& bound) {
  constexpr int64_t kMostIndent = MarkedTextBuilder::kMaxBytes;
  JsonStyle style{.escapes_non_ascii = bound.truth(0, false), .sorts_keys = bound.truth(3, false)};
  if (bound.has_value(1)) {
    TESSERA_ASSIGN(const int64_t indent, bound.integer(1, 0));
    style.indent = to_size(std::clamp<int64_t>(indent, 0, kMostIndent));
    style.item_separator = ",";
  }
  if (!bound.has_value(2)) return style;
  if (!bound[2].is_sequence() || bound[2].as_list().items.size() != 2)
    return fail(ErrorCode::invalid_argument, "separators are not a pair of texts");
  const Value &item = bound[2].as_list().items[0], &key = bound[2].as_list().items[1];
  if (!item.is_text() || !key.is_text()) return fail(ErrorCode::invalid_argument, "separators are not a pair of texts");
  style.item_separator = item.bytes();
  style.key_separator = key.bytes();
  return style;
}

}  // namespace

Result<Value> filter_abs(Runtime&, const Value& value, const Bound&, const Arguments&) {
  if (!value.is_number()) return not_a_number(value);
  if (value.is(Kind::real)) return Value::real(std::abs(value.as_real()));
  return value.as_integer() < 0 ? negate(value) : Result<Value>(Value::integer(value.as_integer()));
}

Result<Value> filter_attr(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  if (!bound.has(0) || !bound[0].is_text())
    return fail(ErrorCode::invalid_argument, "name of the attribute is not a text");
  const bool is_method = is_method_name(bound[0].bytes());
  // Only attributes, no elements: a dict has none but its methods.
  if (value.is(Kind::dict) && find_method(Kind::dict, bound[0].bytes()) == nullptr &&
      !bound[0].bytes().starts_with("__"))
    return Value::undefined(&bound[0].as_text());
  return member(runtime, value, bound[0], is_method);
}

Result<Value> filter_default(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  const bool is_replaced = value.is_undefined() || (bound.truth(1, false) && !is_true(value));
  if (!is_replaced) return value;
  return bound.has(0) ? Result<Value>(bound[0]) : runtime.text("");
}

Result<Value> filter_int(Runtime&, const Value& value, const Bound& bound, const Arguments&) {
  if (value.is_undefined()) return undefined_error(value);
  const Value otherwise = bound.has(0) ? bound[0] : Value::integer(0);
  if (value.is_integer()) return Value::integer(value.as_integer());
  if (value.is(Kind::real)) {
    const auto whole = truncate(value.as_real());
    return whole ? Value::integer(*whole) : otherwise;
  }
  if (!value.is_text()) return otherwise;
  TESSERA_ASSIGN(const int64_t base, bound.integer(1, 10));
  if (base != 0 && (base < 2 || base > 36)) return otherwise;
  const std::string_view text = without_space(value.bytes());
  auto whole = parse_integer(text, static_cast<int>(base));
  if (whole) return Value::integer(*whole);
  if (whole.error().code() == ErrorCode::invalid_argument) return forward_error(whole);
  const auto truncated = integer_of_real_text(text);
  return truncated ? Value::integer(*truncated) : otherwise;
}

Result<Value> filter_float(Runtime&, const Value& value, const Bound& bound, const Arguments&) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_number()) return Value::real(value.as_real());
  if (value.is_text()) {
    if (const auto real = parse_real(without_space(value.bytes()))) return Value::real(*real);
  }
  return bound.has(0) ? bound[0] : Value::real(0);
}

Result<Value> filter_round(Runtime&, const Value& value, const Bound& bound, const Arguments&) {
  if (!value.is_number()) return not_a_number(value);
  TESSERA_ASSIGN(const int64_t decimals, bound.integer(0, 0));
  TESSERA_ASSIGN(const MarkedView method, bound.text(1, "common"));
  if (method.bytes == "common") {
    if (value.is_integer() && decimals >= 0) return Value::integer(value.as_integer());
    const double rounded = round_decimals(value.as_real(), decimals);
    if (value.is(Kind::real)) return Value::real(rounded);
    TESSERA_ASSIGN(const int64_t whole, truncate(rounded));
    return Value::integer(whole);
  }
  if (method.bytes != "ceil" && method.bytes != "floor")
    return fail(ErrorCode::invalid_argument, "method is none of 'common', 'ceil', 'floor'");
  const double unit = std::pow(10.0, static_cast<double>(decimals));
  const double scaled = value.as_real() * unit;
  return Value::real((method.bytes == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> filter_filesizeformat(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  double n_bytes = value.is_number() ? value.as_real() : 0;
  if (value.is_text()) {
    TESSERA_ASSIGN(n_bytes, parse_real(without_space(value.bytes())));
  } else if (!value.is_number()) {
    return not_a_number(value);
  }
  const bool is_binary = bound.truth(0, false);
  const double base = is_binary ? 1024 : 1000;
  if (n_bytes == 1) return runtime.text("1 Byte");
  if (n_bytes < base) return runtime.text(fmt::format("{:.0f} Bytes", std::trunc(n_bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t i = 0;
  double unit = base;
  while (i + 1 < kPrefixes.size() && n_bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  const std::string_view suffix = is_binary ? "iB" : "B";
  const char prefix = is_binary && i == 0 ? 'K' : kPrefixes[i];
  return runtime.text(fmt::format("{:.1f} {}{}", n_bytes / unit, prefix, suffix));
}

Result<Value> filter_tojson(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const JsonStyle style, json_style(bound));
  MarkedTextBuilder builder;
  TESSERA_TRY(append_json(runtime, value, style, builder));
  return runtime.text(builder);
}

Result<Value> filter_from_json(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (!value.is_text()) return fail(ErrorCode::invalid_argument, "{} is not a text", to_string(value.kind()));
  TESSERA_TRY(runtime.spend_bytes(value.bytes().size()));
  const Origin origin = value.as_text().given.empty() ? Origin::trusted : Origin::given;
  JsonLimits limits;
  auto parsed = parse_json(runtime.heap(), value.bytes(), origin, limits);
  if (!parsed) return fail(ErrorCode::invalid_argument, "{}", parsed.error().message());
  TESSERA_TRY(runtime.spend_values(parsed->n_values));
  return parsed->value;
}

}  // namespace tessera::text::jinja
