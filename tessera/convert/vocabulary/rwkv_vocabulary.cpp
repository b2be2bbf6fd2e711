#include "tessera/convert/vocabulary/rwkv_vocabulary.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/text_lines.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kRwkvEnd = 261;  // "\n\n" ends a turn
constexpr std::string_view kPlainEscapes = "ntr\\'\"", kPlainEscaped = "\n\t\r\\'\"";

/// Reads the escapes of one literal.
class PythonLiteral {
 public:
  PythonLiteral(std::string_view body, bool is_bytes) : body_(body), is_bytes_(is_bytes) {}

  Result<std::string> read() {
    std::string out;
    while (at_ < body_.size()) {
      const char c = body_[at_++];
      if (c != '\\') {
        out += c;
        continue;
      }
      TESSERA_TRY(read_escape(out));
    }
    return out;
  }

 private:
  Result<> read_escape(std::string& out) {
    const char c = at_ < body_.size() ? body_[at_++] : '\0';
    if (const size_t which = kPlainEscapes.find(c); which != std::string_view::npos) {
      out += kPlainEscaped[which];
      return {};
    }
    const size_t n_digits = c == 'x' ? 2 : c == 'u' && !is_bytes_ ? 4 : c == 'U' && !is_bytes_ ? 8 : 0;
    uint32_t value = 0;
    const std::string_view digits = body_.substr(at_, n_digits);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_surrogate = value >= 0xD800 && value < 0xE000;
    if (n_digits == 0 || digits.size() != n_digits || code != std::errc{} || end != digits.data() + n_digits ||
        value > text::kMaxCodePoint || (is_surrogate && !is_bytes_))
      return fail(ErrorCode::format, "an unknown escape after byte {}", at_);
    at_ += n_digits;
    if (is_bytes_)
      out += static_cast<char>(value);
    else
      text::append_utf8(value, out);
    return {};
  }

  std::string_view body_;
  bool is_bytes_;
  size_t at_ = 0;
};

Result<> add_rwkv_line(std::string_view line, TokenTable& tokens) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first)
    return fail(ErrorCode::format, "{}: want an id, a literal and a length", text::quote_text(line));
  TESSERA_ASSIGN(const int64_t id, parse_decimal(line.substr(0, first)));
  TESSERA_ASSIGN(const int64_t n_bytes, parse_decimal(line.substr(last + 1)));
  TESSERA_ASSIGN(const std::string bytes, parse_python_literal(line.substr(first + 1, last - first - 1)));
  if (n_bytes < 0 || bytes.size() != static_cast<uint64_t>(n_bytes))
    return fail(ErrorCode::format, "{}: {} bytes, want {}", text::quote_text(line), bytes.size(), n_bytes);
  return tokens.add(id, {python_repr(bytes), 0, text::TokenType::normal});
}

}  // namespace

Result<std::string> parse_python_literal(std::string_view literal) {
  const bool is_bytes = literal.starts_with('b');
  const std::string_view quoted = literal.substr(is_bytes ? 1 : 0);
  const char quote = quoted.empty() ? '\0' : quoted.front();
  if (quoted.size() < 2 || (quote != '\'' && quote != '"') || quoted.back() != quote)
    return fail(ErrorCode::format, "{}: no literal of Python", text::quote_text(literal));
  auto read = PythonLiteral(quoted.substr(1, quoted.size() - 2), is_bytes).read();
  if (!read) return forward_error(read, text::quote_text(literal));
  return read;
}

std::string python_repr(std::string_view bytes) {
  const bool in_double = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (const size_t which = std::string_view("\n\t\r\\").find(c); which != std::string_view::npos)
      out += {'\\', "ntr\\"[which]};
    else if (c == '\'' && !in_double)
      out += "\\'";
    else if (byte < 0x20 || byte >= 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

Result<std::optional<VocabularyDraft>> read_rwkv(const TokenizerFolder& folder) {
  TESSERA_ASSIGN(const std::vector<std::string> names, folder.names_like("", "rwkv_vocab_", ".txt"));
  if (names.empty()) return std::nullopt;
  TESSERA_ASSIGN(const std::string text, folder.read_text(names.front()));
  VocabularyDraft draft;
  draft.file = folder.path_of(names.front());
  draft.vocabulary.model = "rwkv";
  TESSERA_TRY(draft.tokens.add(0, {"<s>", 0, text::TokenType::control}));
  TESSERA_TRY(
      for_each_line(text, draft.file, [&](std::string_view line) { return add_rwkv_line(line, draft.tokens); }));
  draft.bos_id = draft.eos_id = 0;
  if (draft.tokens.find(kRwkvEnd) != nullptr)
    draft.vocabulary.special_ids[to_size(text::SpecialToken::eot)] = static_cast<uint32_t>(kRwkvEnd);
  return draft;
}

}  // namespace tessera::convert
