#include "tessera/text/template/lexer.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/numbers.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

// Longer symbols first, so that the first match is the longest one.
constexpr std::array<std::string_view, 26> kSymbols{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                    "/",  "%",  "~",  "<",  ">",  "=",  ".", ",", ":",
                                                    "|",  ";",  "(",  ")",  "[",  "]",  "{", "}"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool starts_name(uint32_t code_point) {
  constexpr uint32_t kLetters = bit_of(Category::lu) | bit_of(Category::ll) | bit_of(Category::lt) |
                                bit_of(Category::lm) | bit_of(Category::lo) | bit_of(Category::nl);
  return code_point == '_' || (kLetters & bit_of(category_of(code_point))) != 0;
}

bool continues_name(uint32_t code_point) {
  constexpr uint32_t kMarks = bit_of(Category::mn) | bit_of(Category::mc) | bit_of(Category::nd) | bit_of(Category::pc);
  return starts_name(code_point) || (kMarks & bit_of(category_of(code_point))) != 0;
}

std::string_view name_at(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const CodePointStep step = next_code_point(text.substr(n));
    if (!(n == 0 ? starts_name(step.code_point) : continues_name(step.code_point))) break;
    n += step.n_bytes;
  }
  return text.substr(0, n);
}

// The simple escapes of Python and their characters.
constexpr std::string_view kEscapes = "ntrbfva\\'\"";
constexpr std::string_view kEscaped = "\n\t\r\b\f\v\a\\'\"";

}  // namespace

template <class... Args>
std::unexpected<Error> Lexer::fail_at(size_t at, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  error_at_ = static_cast<uint32_t>(at);
  return fail(code, format, std::forward<Args>(args)...);
}

bool Lexer::accept(std::string_view text) {
  if (!rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

void Lexer::skip_space() { at_ += leading_space(rest()); }

Result<> Lexer::run() {
  while (at_ < source_.size()) TESSERA_TRY(lex_literal());
  add(TokenKind::end, source_.size());
  return {};
}

// Literal text up to the next tag, and that tag.
Result<> Lexer::lex_literal() {
  size_t tag = at_;
  for (;; ++tag) {
    tag = source_.find('{', tag);
    if (tag >= source_.size() - 1) tag = source_.size();
    if (tag == source_.size() || std::string_view("{%#").contains(source_[tag + 1])) break;
  }
  const std::string_view text = source_.substr(at_, tag - at_);
  if (tag == source_.size()) {
    if (!text.empty()) add(TokenKind::literal, at_, text);
    at_ = tag;
    return {};
  }
  const size_t literal = at_;
  at_ = tag + 2;
  const char sign = at_ < source_.size() && std::string_view("-+").contains(source_[at_]) ? source_[at_] : '\0';
  const bool is_print = source_[tag + 1] == '{';
  const bool has_sign = sign == '-' || (sign == '+' && !is_print);
  if (has_sign) ++at_;
  add_literal(literal, text, has_sign ? sign : '\0', !is_print);
  if (source_[tag + 1] == '#') return lex_comment(tag);
  if (is_print) {
    add(TokenKind::print_begin, tag);
    return lex_code(tag, TokenKind::print_end);
  }
  TESSERA_ASSIGN(const bool is_raw, lex_raw(tag));
  if (is_raw) return {};
  add(TokenKind::tag_begin, tag);
  return lex_code(tag, TokenKind::tag_end);
}

// Adds the text before a tag. A '-' removes all white space before the tag. Otherwise blanks between the start of a
// line and the tag are removed.
void Lexer::add_literal(size_t at, std::string_view text, char sign, bool strips_line) {
  if (sign == '-') {
    text.remove_suffix(trailing_space(text));
  } else if (strips_line && sign != '+') {
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if ((line > 0 || line_starts_) && leading_space(text.substr(line)) == text.size() - line)
      text = text.substr(0, line);
  }
  if (!text.empty()) add(TokenKind::literal, at, text);
}

// Consumes the white space that a tag removes after itself.
void Lexer::end_tag(char sign, bool trims_line) {
  if (sign == '-') {
    skip_space();
  } else if (sign != '+' && trims_line) {
    accept("\n");
  }
  line_starts_ = source_[at_ - 1] == '\n';
}

Result<> Lexer::lex_comment(size_t begin) {
  const size_t close = source_.find("#}", at_);
  if (close == std::string_view::npos) return fail_at(begin, ErrorCode::format, "comment without '#}}'");
  const char before = close > at_ ? source_[close - 1] : '\0';
  at_ = close + 2;
  end_tag(before, true);
  return {};
}

// {% raw %} up to {% endraw %}; at_ is behind the sign of the tag. Returns false for another tag.
Result<bool> Lexer::lex_raw(size_t begin) {
  const size_t back = at_;
  skip_space();
  const bool is_raw = accept("raw");
  skip_space();
  const bool trims = is_raw && accept("-%}");
  if (!is_raw || (!trims && !accept("%}"))) {
    at_ = back;
    return false;
  }
  if (trims) skip_space();
  line_starts_ = source_[at_ - 1] == '\n';
  const size_t text_at = at_;
  if (at_ == source_.size()) return true;  // as Jinja2 does
  for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
    at_ = tag + 2;
    const char sign = accept("-") ? '-' : accept("+") ? '+' : '\0';
    skip_space();
    if (!accept("endraw")) continue;
    skip_space();
    const char end_sign = accept("-") ? '-' : accept("+") ? '+' : '\0';
    if (!accept("%}")) continue;
    add_literal(text_at, source_.substr(text_at, tag - text_at), sign, true);
    end_tag(end_sign, true);
    return true;
  }
  return fail_at(begin, ErrorCode::format, "raw without endraw");
}

// An end inside brackets is no end: {{ {'a': {}}['a'] }}.
bool Lexer::accept_end(TokenKind end) {
  if (!brackets_.empty()) return false;
  const size_t at = at_;
  const std::string_view close = end == TokenKind::print_end ? "}}" : "%}";
  char sign = '\0';
  if (rest().starts_with('-') || (rest().starts_with('+') && end == TokenKind::tag_end)) sign = source_[at_++];
  if (!accept(close)) {
    at_ = at;
    return false;
  }
  add(end, at);
  end_tag(sign, end == TokenKind::tag_end);
  return true;
}

Result<> Lexer::lex_code(size_t begin, TokenKind end) {
  while (true) {
    skip_space();
    if (accept_end(end)) return {};
    if (at_ == source_.size())
      return fail_at(begin, ErrorCode::format, "tag without '{}'", end == TokenKind::print_end ? "}}" : "%}");
    TESSERA_TRY(lex_token());
  }
}

Result<> Lexer::lex_token() {
  const char c = source_[at_];
  if (is_digit(c)) return lex_number();
  if (c == '\'' || c == '"') return lex_string();
  const std::string_view name = name_at(rest());
  if (name.empty()) return lex_symbol();
  add(TokenKind::name, at_, name);
  at_ += name.size();
  return {};
}

Result<> Lexer::lex_number() {
  const size_t begin = at_;
  const auto skip_digits = [&] {
    while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) ++at_;
  };
  const bool is_member = begin > 0 && source_[begin - 1] == '.';  // x.0.1 is x, 0, 1
  const bool has_prefix =
      source_[begin] == '0' && begin + 1 < source_.size() && std::string_view("xXoObB").contains(source_[begin + 1]);
  bool is_real = false;
  if (has_prefix) {
    at_ += 2;
    while (at_ < source_.size() && is_word(source_[at_])) ++at_;
  } else {
    skip_digits();
    const auto has_digit = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    if (!is_member && rest().starts_with('.') && has_digit(at_ + 1)) {
      is_real = true;
      ++at_;
      skip_digits();
    }
    const bool has_exponent = !is_member && at_ < source_.size() && (source_[at_] | 0x20) == 'e';
    const size_t sign = has_exponent && at_ + 1 < source_.size() && std::string_view("+-").contains(source_[at_ + 1]);
    if (has_exponent && has_digit(at_ + 1 + sign)) {
      is_real = true;
      at_ += 1 + sign;
      skip_digits();
    }
  }
  const std::string_view text = source_.substr(begin, at_ - begin);
  add(TokenKind::number, begin, text);
  if (is_real) {
    const auto value = parse_real(text);
    if (!value) return fail_at(begin, ErrorCode::format, "'{}' is not a number", text);
    tokens_.back().number = Value::real(*value);
    return {};
  }
  const auto value = parse_integer(text, 0);
  if (!value && value.error().code() != ErrorCode::format)
    return fail_at(begin, ErrorCode::invalid_argument, "number out of range");
  if (!value) return fail_at(begin, ErrorCode::format, "'{}' is not a number", text);
  tokens_.back().number = Value::integer(*value);
  return {};
}

Result<> Lexer::lex_string() {
  const size_t begin = at_;
  const char quote = source_[at_++];
  std::string value;
  while (at_ < source_.size() && source_[at_] != quote) {
    if (source_[at_] != '\\') {
      value += source_[at_++];
      continue;
    }
    ++at_;
    if (at_ < source_.size()) TESSERA_TRY(lex_escape(value));
  }
  if (at_ == source_.size()) return fail_at(begin, ErrorCode::format, "string without closing quote");
  ++at_;
  add(TokenKind::text, begin, strings_.emplace_back(std::move(value)));
  return {};
}

// An escape of Python's string literals; at_ is behind the backslash. An unknown escape keeps its backslash.
Result<> Lexer::lex_escape(std::string& out) {
  const size_t begin = at_ - 1;
  const char c = source_[at_];
  if (c == '\n') {
    ++at_;
    return {};
  }
  if (const size_t simple = kEscapes.find(c); simple != std::string_view::npos) {
    out += kEscaped[simple];
    ++at_;
    return {};
  }
  const bool is_octal = c >= '0' && c <= '7';
  const size_t n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (!is_octal && n_hex == 0) {
    out += '\\';
    return {};
  }
  if (!is_octal) ++at_;
  const std::string_view wanted = is_octal ? "01234567" : "0123456789abcdefABCDEF";
  const size_t n_digits = std::min(rest().find_first_not_of(wanted), rest().size());
  const size_t n = std::min(n_digits, is_octal ? size_t{3} : n_hex);
  const auto code_point = parse_integer(rest().substr(0, n), is_octal ? 8 : 16);
  const bool is_surrogate = code_point && *code_point >= 0xD800 && *code_point <= 0xDFFF;
  if ((!is_octal && n != n_hex) || !code_point || *code_point > kMaxCodePoint || is_surrogate)
    return fail_at(begin, ErrorCode::format, "escape '\\{}' is not a character", c);
  append_utf8(static_cast<uint32_t>(*code_point), out);
  at_ += n;
  return {};
}

Result<> Lexer::lex_symbol() {
  const auto symbol = std::ranges::find_if(kSymbols, [&](std::string_view s) { return rest().starts_with(s); });
  if (symbol == kSymbols.end()) {
    const size_t n = next_code_point(rest()).n_bytes;
    return fail_at(at_, ErrorCode::format, "unexpected character {}", quote_text(rest().substr(0, n)));
  }
  constexpr std::string_view kOpening = "([{", kClosing = ")]}";
  if (const size_t opening = kOpening.find(*symbol); opening != std::string_view::npos) {
    if (brackets_.size() == kMaxDepth) return fail_at(at_, ErrorCode::limit, "nested deeper than {}", kMaxDepth);
    brackets_.push_back(kClosing[opening]);
  } else if (kClosing.contains(*symbol)) {
    if (brackets_.empty()) return fail_at(at_, ErrorCode::format, "unexpected '{}'", *symbol);
    if (brackets_.back() != symbol->front())
      return fail_at(at_, ErrorCode::format, "unexpected '{}', want '{}'", *symbol, brackets_.back());
    brackets_.pop_back();
  }
  add(TokenKind::symbol, at_, source_.substr(at_, symbol->size()));
  at_ += symbol->size();
  return {};
}

}  // namespace tessera::text::jinja
