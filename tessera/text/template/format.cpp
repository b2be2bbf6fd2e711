// Python's two ways to format: '%d' % value and '{:d}'.format(value). Both lead to one form of a value, FormatSpec.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/numbers.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;

struct FormatSpec {
  std::string_view fill = " ";
  char align = '\0';  // '<', '>', '^' or '=' (fill between sign and digits)
  char sign = '-';    // '+' and ' ' show a sign of positive numbers
  bool is_alternate = false;
  char grouping = '\0';
  int64_t width = 0;
  std::optional<int64_t> precision{};
  char type = '\0';
};

std::unexpected<Error> bad_format(std::string_view format) {
  return fail(ErrorCode::invalid_argument, "format {} is not valid", quote_text(format));
}

// Reads digits of a width or a precision; empty if there is none. Large numbers are cut above all limits.
std::optional<int64_t> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  if (digits.empty()) return std::nullopt;
  int64_t value = 0;
  const auto parsed = std::from_chars(digits.begin(), digits.end(), value);
  if (parsed.ec != std::errc()) value = INT64_MAX;
  text.remove_prefix(digits.size());
  return value;
}

void group_digits(std::string& digits, char separator) {
  const size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
}

std::string real_digits(double magnitude, const FormatSpec& spec) {
  const char type = spec.type == '%' ? 'f' : static_cast<char>(spec.type | 0x20);
  if (std::isnan(magnitude)) return "nan";
  if (std::isinf(magnitude)) return "inf";
  if (spec.type == '\0' && !spec.precision) return real_text(magnitude);
  const std::chars_format form = type == 'f'   ? std::chars_format::fixed
                                 : type == 'e' ? std::chars_format::scientific
                                               : std::chars_format::general;
  std::array<char, 1400> buffer;  // 309 digits before the point and kMaxPrecision behind it
  const auto precision = static_cast<int>(spec.precision.value_or(6));
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, form, precision);
  std::string digits(buffer.data(), end.ptr);
  if (spec.type == '\0' && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

std::string integer_digits(uint64_t magnitude, const FormatSpec& spec) {
  switch (spec.type) {
    case 'x':
      return fmt::format("{}{:x}", spec.is_alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", spec.is_alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", spec.is_alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", spec.is_alternate ? "0b" : "", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

// Appends a text with padding around it, or for '=' between its sign and the rest.
void append_padded(const MarkedView& text, size_t n_sign, const FormatSpec& spec, char default_align,
                   MarkedTextBuilder& builder) {
  const auto n = static_cast<int64_t>(count_code_points(text.bytes));
  const size_t n_padding = spec.width > n ? to_size(spec.width - n) : 0;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const size_t n_left = align == '<' ? 0 : align == '^' ? n_padding / 2 : n_padding;
  const auto pad = [&](size_t count) {
    if (spec.fill.size() == 1) return builder.append_repeated(count, spec.fill[0]);
    for (size_t i = 0; i < count && !builder.overflowed(); ++i) builder.append(spec.fill);
  };
  const size_t n_before = align == '=' ? n_sign : 0;
  builder.append_slice(text, 0, n_before);
  pad(n_left);
  builder.append_slice(text, n_before, text.bytes.size());
  pad(n_padding - n_left);
}

Result<> append_number(const Value& value, const FormatSpec& spec, MarkedTextBuilder& builder) {
  const bool is_real = value.is(Kind::real) || std::string_view("eEfFgG%").contains(spec.type);
  std::string digits;
  bool is_negative = false;
  if (is_real) {
    const double real = value.as_real() * (spec.type == '%' ? 100 : 1);
    is_negative = std::signbit(real) && !std::isnan(real);
    digits = real_digits(std::abs(real), spec);
    if (spec.type == '%') digits += '%';
  } else {
    is_negative = value.as_integer() < 0;
    const auto bits = static_cast<uint64_t>(value.as_integer());
    digits = integer_digits(is_negative ? 0 - bits : bits, spec);
  }
  if (std::string_view("EFG").contains(spec.type)) digits = to_upper(digits);
  if (spec.grouping != '\0') group_digits(digits, spec.grouping);
  const char sign = is_negative ? '-' : spec.sign;
  const bool has_sign = is_negative || spec.sign != '-';
  if (has_sign) digits.insert(digits.begin(), sign);
  append_padded({digits}, has_sign ? 1 : 0, spec, '>', builder);
  return {};
}

Result<> append_as_text(Runtime& runtime, const Value& value, const FormatSpec& spec, char default_align,
                        MarkedTextBuilder& builder) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  MarkedTextBuilder cut;
  const size_t n = spec.precision ? to_size(*spec.precision) : SIZE_MAX;
  cut.append_slice(text.as_text(), 0, code_point_offset(text.bytes(), n));
  append_padded(cut.view(), 0, spec, default_align, builder);
  return {};
}

Result<Value> repr_of(Runtime& runtime, const Value& value) {
  TESSERA_ASSIGN(List * single, runtime.create_list(1));
  single->items.push_back(value);
  MarkedTextBuilder builder;
  TESSERA_TRY(append_text(runtime, Value::list(single), builder));
  const MarkedView list = builder.view();
  MarkedTextBuilder inner;
  if (!builder.overflowed()) inner.append_slice(list, 1, list.bytes.size() - 1);
  return runtime.text(builder.overflowed() ? builder : inner);
}

Result<> check_precision(const FormatSpec& spec, std::string_view format) {
  if (spec.precision && *spec.precision > kMaxPrecision && std::string_view("eEfFgG%").contains(spec.type))
    return fail(ErrorCode::invalid_argument, "precision in {} above {}", quote_text(format), kMaxPrecision);
  return {};
}

// --- '%' ---

// Hands out the values behind '%'.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values) {}

  Result<Value> next() {
    if (values_.is(Kind::tuple)) {
      const auto& items = values_.as_list().items;
      if (next_ < items.size()) return items[next_++];
    } else if (next_++ == 0) {
      return values_;
    }
    return fail(ErrorCode::invalid_argument, "format has more conversions than values");
  }
  Result<Value> named(Runtime& runtime, std::string_view name) {
    if (!values_.is(Kind::dict)) return fail(ErrorCode::invalid_argument, "format with names wants a dict");
    next_ = 1;
    return item(runtime, values_, runtime.heap().text(name));
  }
  bool is_used_up() const {
    if (values_.is(Kind::tuple)) return next_ >= values_.as_list().items.size();
    return next_ > 0 || values_.is(Kind::dict);
  }

 private:
  Value values_;
  size_t next_ = 0;
};

Result<std::optional<int64_t>> take_number_or_star(std::string_view& text, PercentValues& values) {
  if (!text.starts_with('*')) return take_number(text);
  text.remove_prefix(1);
  TESSERA_ASSIGN(const Value value, values.next());
  if (!value.is_integer()) return fail(ErrorCode::invalid_argument, "'*' wants an integer");
  return value.as_integer();
}

// Reads FLAGS WIDTH .PRECISION TYPE.
Result<FormatSpec> take_percent_spec(std::string_view& text, PercentValues& values) {
  const std::string_view whole = text;
  FormatSpec spec;
  for (; !text.empty() && std::string_view("-+ #0").contains(text[0]); text.remove_prefix(1)) {
    if (text[0] == '-') spec.align = '<';
    if (text[0] == '+' || (text[0] == ' ' && spec.sign != '+')) spec.sign = text[0];
    if (text[0] == '#') spec.is_alternate = true;
    if (text[0] == '0') spec.fill = "0";
  }
  TESSERA_ASSIGN(const auto width, take_number_or_star(text, values));
  spec.width = width.value_or(0);
  if (spec.width < 0) {
    spec.align = '<';
    spec.width = spec.width == INT64_MIN ? INT64_MAX : -spec.width;
  }
  if (spec.align == '<') spec.fill = " ";
  if (spec.fill == "0") spec.align = '=';
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    TESSERA_ASSIGN(const auto precision, take_number_or_star(text, values));
    spec.precision = std::max<int64_t>(precision.value_or(0), 0);
  }
  while (!text.empty() && std::string_view("hlL").contains(text[0])) text.remove_prefix(1);
  if (text.empty()) return bad_format(whole);
  spec.type = text[0];
  text.remove_prefix(1);
  TESSERA_TRY(check_precision(spec, whole));
  return spec;
}

Result<> append_conversion(Runtime& runtime, FormatSpec spec, const Value& value, MarkedTextBuilder& builder) {
  if (std::string_view("sra").contains(spec.type)) {
    spec.fill = " ";
    if (spec.align == '=') spec.align = '>';
    TESSERA_ASSIGN(const Value text, spec.type == 's' ? text_of(runtime, value) : repr_of(runtime, value));
    return append_as_text(runtime, text, spec, '>', builder);
  }
  if (spec.type == 'c') {
    std::string character;
    if (value.is_integer() && value.as_integer() >= 0 && value.as_integer() <= kMaxCodePoint &&
        (value.as_integer() < 0xD800 || value.as_integer() > 0xDFFF)) {
      append_utf8(static_cast<uint32_t>(value.as_integer()), character);
    } else if (value.is_text() && count_code_points(value.bytes()) == 1) {
      return append_as_text(runtime, value, spec, '>', builder);
    } else {
      return fail(ErrorCode::invalid_argument, "%c wants a character");
    }
    append_padded({character}, 0, spec, '>', builder);
    return {};
  }
  if (!std::string_view("diuxXoeEfFgG").contains(spec.type)) return bad_format(std::string("%") + spec.type);
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_number())
    return fail(ErrorCode::invalid_argument, "%{} wants a number, got {}", spec.type, to_string(value.kind()));
  const bool wants_integer = std::string_view("diuxXo").contains(spec.type);
  if (!wants_integer) return append_number(value, spec, builder);
  if (value.is(Kind::real) && std::string_view("xXo").contains(spec.type))
    return fail(ErrorCode::invalid_argument, "%{} wants an integer", spec.type);
  if (spec.precision && *spec.precision > 0) return bad_format("integer with precision");
  const auto whole = value.is(Kind::real) ? truncate(value.as_real()) : Result<int64_t>(value.as_integer());
  if (!whole) return std::unexpected(whole.error());
  return append_number(Value::integer(*whole), spec, builder);
}

// --- braces ---

// Reads [[FILL]ALIGN][SIGN][#][0][WIDTH][GROUPING][.PRECISION][TYPE].
Result<FormatSpec> parse_brace_spec(std::string_view text) {
  const std::string_view whole = text;
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec spec;
  const size_t n_fill = text.empty() ? 0 : next_code_point(text).n_bytes;
  if (n_fill < text.size() && kAligns.contains(text[n_fill])) {
    spec.fill = text.substr(0, n_fill);
    text.remove_prefix(n_fill);
  }
  const auto take_one_of = [&](std::string_view characters) {
    const char c = !text.empty() && characters.contains(text[0]) ? text[0] : '\0';
    if (c != '\0') text.remove_prefix(1);
    return c;
  };
  spec.align = take_one_of(kAligns);
  if (const char sign = take_one_of("+- "); sign != '\0') spec.sign = sign;
  spec.is_alternate = take_one_of("#") != '\0';
  if (take_one_of("0") != '\0' && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = take_number(text).value_or(0);
  spec.grouping = take_one_of(",_");
  if (take_one_of(".") != '\0') {
    spec.precision = take_number(text);
    if (!spec.precision) return bad_format(whole);
  }
  spec.type = take_one_of("bcdeEfFgGnosxX%");
  if (!text.empty()) return bad_format(whole);
  TESSERA_TRY(check_precision(spec, whole));
  return spec;
}

Result<> append_brace_value(Runtime& runtime, const Value& value, FormatSpec spec, MarkedTextBuilder& builder) {
  const bool is_number = value.is_number() && !(value.is(Kind::boolean) && spec.type == '\0');
  if (is_number && spec.type != 's' && spec.type != 'c') {
    const bool wants_integer = std::string_view("bdoxX").contains(spec.type) && spec.type != '\0';
    if (wants_integer && value.is(Kind::real)) return bad_format(std::string(1, spec.type) + " for a real");
    if (spec.type == 'n') spec.type = '\0';
    if (spec.precision && *spec.precision > kMaxPrecision) spec.precision = kMaxPrecision;
    return append_number(value, spec, builder);
  }
  if (spec.type != '\0' && spec.type != 's')
    return fail(ErrorCode::invalid_argument, "format '{}' does not fit {}", spec.type, to_string(value.kind()));
  if (spec.align == '=') spec.align = '<';
  return append_as_text(runtime, value, spec, '<', builder);
}

// Hands out the arguments of format().
class BraceValues {
 public:
  explicit BraceValues(const Arguments& arguments) : arguments_(arguments) {}

  Result<Value> find(std::string_view field) {
    if (field.find_first_of(".[") != std::string_view::npos)
      return fail(ErrorCode::unsupported, "member or index in field {} is forbidden", quote_text(field));
    size_t index = next_;
    if (field.empty()) {
      ++next_;
    } else if (const auto number = take_number(field); number && field.empty()) {
      index = to_size(*number);
    } else {
      const auto named = std::ranges::find(arguments_.keywords, field, &Arguments::Keyword::name);
      if (named == arguments_.keywords.end())
        return fail(ErrorCode::invalid_argument, "no argument {}", quote_text(field));
      return named->value;
    }
    if (index >= arguments_.positional.size()) return fail(ErrorCode::invalid_argument, "no argument {}", index);
    return arguments_.positional[index];
  }

 private:
  const Arguments& arguments_;
  size_t next_ = 0;
};

// One field without its braces: NAME[!CONVERSION][:SPEC].
Result<> append_field(Runtime& runtime, std::string_view field, BraceValues& values, MarkedTextBuilder& builder) {
  if (field.contains('{')) return bad_format(field);
  const size_t colon = std::min(field.find(':'), field.size());
  const std::string_view spec_text = colon < field.size() ? field.substr(colon + 1) : "";
  std::string_view name = field.substr(0, colon);
  const size_t bang = std::min(name.find('!'), name.size());
  const std::string_view conversion = name.substr(bang);
  name = name.substr(0, bang);
  if (!conversion.empty() && conversion != "!s" && conversion != "!r") return bad_format(field);
  TESSERA_ASSIGN(Value value, values.find(name));
  TESSERA_ASSIGN(const FormatSpec spec, parse_brace_spec(spec_text));
  if (conversion == "!r") {
    TESSERA_ASSIGN(value, repr_of(runtime, value));
  } else if (conversion == "!s") {
    TESSERA_ASSIGN(value, text_of(runtime, value));
  }
  return append_brace_value(runtime, value, spec, builder);
}

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Value& format, const Value& values) {
  const MarkedView& text = format.as_text();
  PercentValues given(values);
  MarkedTextBuilder builder;
  size_t done = 0;
  for (size_t at = text.bytes.find('%'); at < text.bytes.size(); at = text.bytes.find('%', done)) {
    TESSERA_TRY(runtime.spend(1));
    builder.append_slice(text, done, at);
    std::string_view rest = text.bytes.substr(at + 1);
    std::optional<Value> value;
    if (rest.starts_with('(')) {
      const size_t close = rest.find(')');
      if (close == std::string_view::npos) return bad_format(rest);
      TESSERA_ASSIGN(value, given.named(runtime, rest.substr(1, close - 1)));
      rest.remove_prefix(close + 1);
    }
    TESSERA_ASSIGN(const FormatSpec spec, take_percent_spec(rest, given));
    done = text.bytes.size() - rest.size();
    if (spec.type == '%') {
      builder.append("%");
      continue;
    }
    if (!value) {
      TESSERA_ASSIGN(value, given.next());
    }
    TESSERA_TRY(append_conversion(runtime, spec, *value, builder));
  }
  builder.append_slice(text, done, text.bytes.size());
  if (!given.is_used_up()) return fail(ErrorCode::invalid_argument, "format has fewer conversions than values");
  return runtime.text(builder);
}

Result<Value> format_braces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  const MarkedView& text = format.as_text();
  BraceValues values(arguments);
  MarkedTextBuilder builder;
  size_t done = 0;
  for (size_t at = text.bytes.find_first_of("{}"); at < text.bytes.size(); at = text.bytes.find_first_of("{}", done)) {
    TESSERA_TRY(runtime.spend(1));
    builder.append_slice(text, done, at);
    const char brace = text.bytes[at];
    if (at + 1 < text.bytes.size() && text.bytes[at + 1] == brace) {
      builder.append_slice(text, at, at + 1);
      done = at + 2;
      continue;
    }
    const size_t close = text.bytes.find('}', at);
    if (brace == '}' || close == std::string_view::npos) return bad_format(text.bytes.substr(at));
    TESSERA_TRY(append_field(runtime, text.bytes.substr(at + 1, close - at - 1), values, builder));
    done = close + 1;
  }
  builder.append_slice(text, done, text.bytes.size());
  return runtime.text(builder);
}

}  // namespace tessera::text::jinja
