#include "tessera/text/chat/json_reader.h"

#include <algorithm>

#include "tessera/text/json_quoted.h"
#include "tessera/text/unicode.h"

namespace tessera::text {
namespace {

bool is_json_blank(char c) { return kJsonBlanks.find(c) != kJsonBlanks.npos; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_plain_in_string(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

}  // namespace

std::string json_escaped(std::string_view text) {
  const std::string quoted = json_quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

JsonProgress JsonStringReader::read(std::string_view text, std::string* out) {
  size_t i = 0;
  while (i < text.size()) {
    if (at_ != At::text || text[i] == '\\') {
      if (!read_one(text[i], out)) return {i, JsonState::bad};
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_plain_in_string(text[i])) ++i;
    if (out != nullptr) out->append(text, begin, i - begin);
    if (i == text.size() || text[i] == '\\') continue;
    if (text[i] != '"') return {i, JsonState::bad};
    return {i + 1, JsonState::done};
  }
  return {i, JsonState::more};
}

// Reads a byte of an escape.
bool JsonStringReader::read_one(char c, std::string* out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  switch (at_) {
    case At::text:
      at_ = At::escape;
      return true;
    case At::escape: {
      if (c == 'u') {
        at_ = At::hex;
        n_hex_ = 0;
        code_ = 0;
        return true;
      }
      const size_t letter = kLetters.find(c);
      if (letter == kLetters.npos) return false;
      if (out != nullptr) *out += kMeanings[letter];
      at_ = At::text;
      return true;
    }
    case At::hex:
      return read_hex(c, out);
    case At::low_backslash:
      at_ = At::low_u;
      return c == '\\';
    case At::low_u:
      at_ = At::hex;
      n_hex_ = 0;
      code_ = 0;
      return c == 'u';
  }
  return false;
}

bool JsonStringReader::read_hex(char c, std::string* out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t digit = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
  if (digit == kDigits.npos) return false;
  code_ = code_ * 16 + static_cast<uint32_t>(digit);
  if (++n_hex_ < 4) return true;
  const bool is_high = code_ >= 0xD800 && code_ < 0xDC00;
  const bool is_low = code_ >= 0xDC00 && code_ < 0xE000;
  if (is_low != (high_ != 0)) return false;
  if (is_high) {
    high_ = code_;
    at_ = At::low_backslash;
    return true;
  }
  if (is_low) code_ = 0x10000 + ((high_ - 0xD800) << 10) + (code_ - 0xDC00);
  if (out != nullptr) append_utf8(code_, *out);
  high_ = 0;
  at_ = At::text;
  return true;
}

JsonProgress JsonReader::read(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (at_ == At::done) return {i, JsonState::done};
    if (at_ == At::string || at_ == At::key_string) {
      const JsonProgress progress = string_.read(text.substr(i), nullptr);
      i += progress.n_bytes;
      if (progress.state == JsonState::bad) return {i, JsonState::bad};
      if (progress.state == JsonState::more) break;
      if (at_ == At::key_string)
        at_ = At::colon;
      else
        end_value();
      continue;
    }
    if (at_ == At::number && !read_number(text[i])) {
      if (!is_number()) return {i, JsonState::bad};
      end_value();
      continue;
    }
    if (at_ != At::number && !read_one(text[i])) return {i, JsonState::bad};
    ++i;
  }
  return {i, at_ == At::done ? JsonState::done : JsonState::more};
}

bool JsonReader::is_complete() const { return at_ == At::done || (at_ == At::number && depth_ == 0 && is_number()); }

bool JsonReader::read_one(char c) {
  if (at_ == At::word) {
    if (c != word_.front()) return false;
    word_.remove_prefix(1);
    return !word_.empty() || end_value();
  }
  if (is_json_blank(c)) return true;
  switch (at_) {
    case At::value_or_end:
      if (c == ']') return close(c);
      return begin_value(c);
    case At::value:
      return begin_value(c);
    case At::key_or_end:
      if (c == '}') return close(c);
      [[fallthrough]];
    case At::key:
      if (c != '"') return false;
      string_ = {};
      at_ = At::key_string;
      return true;
    case At::colon:
      at_ = At::value;
      return c == ':';
    case At::comma_or_end:
      if (c != ',') return close(c);
      at_ = closers_[depth_ - 1] == '}' ? At::key : At::value;
      return true;
    default:
      return false;
  }
}

bool JsonReader::begin_value(char c) {
  constexpr std::array<std::string_view, 3> kWords = {"true", "false", "null"};
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    string_ = {};
    at_ = At::string;
    return true;
  }
  if (c == '-' || is_digit(c)) {
    at_ = At::number;
    digits_ = c == '-' ? Digits::minus : c == '0' ? Digits::zero : Digits::whole;
    return true;
  }
  const auto word = std::ranges::find(kWords, c, [](std::string_view known) { return known.front(); });
  if (word == kWords.end()) return false;
  word_ = word->substr(1);
  at_ = At::word;
  return true;
}

bool JsonReader::open(char bracket) {
  is_too_deep_ = depth_ == kMaxJsonDepth;
  if (is_too_deep_) return false;
  closers_[depth_++] = bracket == '{' ? '}' : ']';
  at_ = bracket == '{' ? At::key_or_end : At::value_or_end;
  return true;
}

bool JsonReader::close(char bracket) {
  if (closers_[depth_ - 1] != bracket) return false;
  --depth_;
  return end_value();
}

bool JsonReader::end_value() {
  at_ = depth_ == 0 ? At::done : At::comma_or_end;
  return true;
}

// Reads a byte of a number, or returns false if the byte is not part of it.
bool JsonReader::read_number(char c) {
  const auto go = [this](Digits next) {
    digits_ = next;
    return true;
  };
  const bool may_end_whole = digits_ == Digits::zero || digits_ == Digits::whole;
  if (is_digit(c)) {
    switch (digits_) {
      case Digits::minus:
        return go(c == '0' ? Digits::zero : Digits::whole);
      case Digits::zero:
        return false;
      case Digits::whole:
        return true;
      case Digits::point:
      case Digits::fraction:
        return go(Digits::fraction);
      default:
        return go(Digits::exponent);
    }
  }
  if (c == '.') return may_end_whole && go(Digits::point);
  if (c == 'e' || c == 'E') return (may_end_whole || digits_ == Digits::fraction) && go(Digits::e);
  if (c == '+' || c == '-') return digits_ == Digits::e && go(Digits::sign);
  return false;
}

bool JsonReader::is_number() const {
  return digits_ == Digits::zero || digits_ == Digits::whole || digits_ == Digits::fraction ||
         digits_ == Digits::exponent;
}

}  // namespace tessera::text
