#include "tessera/text/chat/literal_reader.h"

#include <algorithm>
#include <charconv>

#include "tessera/text/chat/call_reader.h"
#include "tessera/text/json_quoted.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr size_t kMaxWordBytes = 400;  // more digits than a double has

struct LiteralWord {
  std::string_view literal;
  std::string_view json;
};

constexpr LiteralWord kLiteralWords[] = {{"None", "null"}, {"True", "true"}, {"False", "false"},
                                         {"null", "null"}, {"true", "true"}, {"false", "false"}};

struct LiteralEscape {
  char letter;
  std::string_view meaning;
};

// Escapes of Python strings (Python 3 reference, section 2.4.1) without octal numbers and character names.
constexpr LiteralEscape kLiteralEscapes[] = {{'\\', "\\"}, {'\'', "'"}, {'"', "\""},     {'n', "\n"}, {'r', "\r"},
                                             {'t', "\t"},  {'b', "\b"}, {'f', "\f"},     {'v', "\v"}, {'a', "\a"},
                                             {'/', "/"},   {'\n', ""},  {'0', {"\0", 1}}};

// The number of hexadecimal digits after \x, \u and \U; 0 for other letters.
size_t n_hex_digits(char letter) { return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0; }

bool is_word_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
         c == '.' || c == '_';
}

// Returns the code point in UTF-8; U+FFFD for a surrogate or a value that is none.
std::string utf8_of(uint32_t code) {
  if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) return std::string(kReplacementCharacter);
  std::string out;
  append_utf8(code, out);
  return out;
}

}  // namespace

LiteralReader::LiteralReader(LiteralSyntax syntax) : syntax_(syntax) { gemma_quote_.add(std::string(kGemmaQuote)); }

LiteralReader::Progress LiteralReader::read(std::string_view text, bool is_last, std::string& out) {
  switch (at_) {
    case At::string:
      return read_string(text, is_last, out);
    case At::bare_key:
      return read_bare_key(text, out);
    case At::escape:
      return read_escape(text.front(), out);
    case At::word:
      return read_word(text, out);
    default:
      break;
  }
  if (const size_t n = count_blanks(text); n > 0) return {State::more, n};
  switch (at_) {
    case At::colon:
      if (text.front() != ':') return {State::bad};
      out += ": ";
      at_ = At::value;
      return {State::more, 1};
    case At::comma_or_end:
      return read_comma(text.front(), out);
    case At::key:
    case At::key_or_end:
      return read_key(text, is_last, out);
    default:
      return read_value(text, is_last, out);
  }
}

// Returns the length of the quote at the front of text, or 0 if there is none.
size_t LiteralReader::quote_bytes(std::string_view text, bool is_last, bool& waits) {
  if (syntax_ == LiteralSyntax::python) return text.front() == '"' || text.front() == '\'' ? 1 : 0;
  const MarkSet::Look look = gemma_quote_.look(text, is_last);
  waits = look.kind == MarkSet::Kind::wait;
  return look.kind == MarkSet::Kind::mark ? look.n_bytes : 0;
}

LiteralReader::Progress LiteralReader::read_value(std::string_view text, bool is_last, std::string& out) {
  const char c = text.front();
  if (at_ == At::value_or_end && c == ']') return read_comma(c, out);
  if (c == '[' || c == '{') {
    if (depth_ == kMaxJsonDepth) return {State::bad};
    closers_[depth_++] = c == '[' ? ']' : '}';
    out += c;
    at_ = c == '[' ? At::value_or_end : At::key_or_end;
    return {State::more, 1};
  }
  bool waits = false;
  const size_t n = quote_bytes(text, is_last, waits);
  if (waits) return {State::wait};
  if (n > 0) {
    quote_ = c;
    is_key_ = false;
    out += '"';
    at_ = At::string;
    return {State::more, n};
  }
  if (!is_word_byte(c)) return {State::bad};
  part_.clear();
  at_ = At::word;
  return {State::more, 0};
}

LiteralReader::Progress LiteralReader::read_string(std::string_view text, bool is_last, std::string& out) {
  if (syntax_ == LiteralSyntax::gemma) {
    const MarkSet::Look look = gemma_quote_.look(text, is_last);
    if (look.kind == MarkSet::Kind::wait) return {State::wait};
    if (look.kind == MarkSet::Kind::mark) return end_string(look.n_bytes, out);
    out += json_escaped(text.substr(0, look.n_bytes));
    return {State::more, look.n_bytes};
  }
  if (text.front() == quote_) return end_string(1, out);
  if (text.front() == '\\') {
    part_.clear();
    at_ = At::escape;
    return {State::more, 1};
  }
  size_t n = 1;
  while (n < text.size() && text[n] != quote_ && text[n] != '\\') ++n;
  out += json_escaped(text.substr(0, n));
  return {State::more, n};
}

LiteralReader::Progress LiteralReader::read_escape(char c, std::string& out) {
  if (part_.empty() && n_hex_digits(c) == 0) {
    const auto found = std::ranges::find(kLiteralEscapes, c, &LiteralEscape::letter);
    const bool is_known = found != std::end(kLiteralEscapes);
    at_ = At::string;
    // Python keeps the backslash of an escape that it does not know.
    out += is_known ? json_escaped(found->meaning) : json_escaped("\\");
    return {State::more, is_known ? size_t{1} : size_t{0}};
  }
  part_ += c;
  if (part_.size() == 1) return {State::more, 1};
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(part_.data() + 1, part_.data() + part_.size(), code, 16);
  if (error != std::errc() || end != part_.data() + part_.size()) return {State::bad};
  if (part_.size() <= n_hex_digits(part_.front())) return {State::more, 1};
  out += json_escaped(utf8_of(code));
  at_ = At::string;
  return {State::more, 1};
}

LiteralReader::Progress LiteralReader::end_string(size_t n_bytes, std::string& out) {
  out += '"';
  if (!is_key_) return end_value(n_bytes);
  at_ = At::colon;
  return {State::more, n_bytes};
}

LiteralReader::Progress LiteralReader::read_key(std::string_view text, bool is_last, std::string& out) {
  if (at_ == At::key_or_end && text.front() == '}') return read_comma('}', out);
  bool waits = false;
  const size_t n = quote_bytes(text, is_last, waits);
  if (waits) return {State::wait};
  if (n == 0 && syntax_ == LiteralSyntax::python) return {State::bad};
  quote_ = text.front();
  is_key_ = true;
  part_.clear();
  at_ = n > 0 ? At::string : At::bare_key;
  if (n > 0) out += '"';
  return {State::more, n};
}

LiteralReader::Progress LiteralReader::read_bare_key(std::string_view text, std::string& out) {
  const size_t end = std::min(text.find_first_of(":,{}[]"), text.size());
  const size_t n_fitting = fitting_bytes(text.substr(0, end), kMaxCallNameBytes - part_.size());
  if (n_fitting < end) return {State::bad, n_fitting};
  part_ += text.substr(0, end);
  if (end == text.size()) return {State::more, end};
  if (text[end] != ':' || part_.empty()) return {State::bad, end};
  out += json_quoted(part_);
  at_ = At::colon;
  return {State::more, end};
}

LiteralReader::Progress LiteralReader::read_word(std::string_view text, std::string& out) {
  size_t n = 0;
  while (n < text.size() && is_word_byte(text[n])) ++n;
  const size_t n_free = kMaxWordBytes - part_.size();
  if (n > n_free) return {State::bad, n_free};
  part_ += text.substr(0, n);
  if (n == text.size()) return {State::more, n};
  const auto word = std::ranges::find(kLiteralWords, part_, &LiteralWord::literal);
  JsonReader number;
  if (word != std::end(kLiteralWords))
    out += word->json;
  else if (number.read(part_).n_bytes == part_.size() && number.is_complete())
    out += part_;
  else
    return {State::bad, n};
  return end_value(n);
}

LiteralReader::Progress LiteralReader::read_comma(char c, std::string& out) {
  if (c == ',') {
    out += ", ";
    at_ = closers_[depth_ - 1] == '}' ? At::key : At::value;
    return {State::more, 1};
  }
  if (c != closers_[depth_ - 1]) return {State::bad};
  out += c;
  --depth_;
  return end_value(1);
}

LiteralReader::Progress LiteralReader::end_value(size_t n_bytes) {
  at_ = At::comma_or_end;
  return {depth_ == 0 ? State::done : State::more, n_bytes};
}

}  // namespace tessera::text
