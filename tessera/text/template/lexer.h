// Splits the source of a template into tokens. White space around tags is already removed from the literal text, as
// Jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

enum class TokenKind : uint8_t {
  literal,      // text between tags
  print_begin,  // {{
  print_end,
  tag_begin,  // {%
  tag_end,
  name,
  text,  // a string literal; its escapes are resolved
  number,
  symbol,  // an operator or a bracket
  end,     // end of the source
};

struct Token {
  TokenKind kind = TokenKind::end;
  uint32_t at = 0;        // byte in the source
  std::string_view text;  // literal, name, symbol; the value of a string
  Value number{};

  bool is_symbol(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

class Lexer {
 public:
  static constexpr size_t kMaxDepth = 64;  // of brackets

  /// The source is valid UTF-8 with '\n' as its only line break. It must outlive the tokens.
  explicit Lexer(std::string_view source) : source_(source) {}

  /// Errors: format; limit; invalid_argument (a number outside 64 bits). error_at() is then the place.
  Result<> run();

  uint32_t error_at() const { return error_at_; }
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  template <class... Args>
  std::unexpected<Error> fail_at(size_t at, ErrorCode code, fmt::format_string<Args...> format, Args&&... args);

  std::string_view rest() const { return source_.substr(at_); }
  bool accept(std::string_view text);
  void skip_space();
  void add(TokenKind kind, size_t at, std::string_view text = {}) {
    tokens_.push_back({kind, static_cast<uint32_t>(at), text, {}});
  }

  Result<> lex_literal();
  void add_literal(size_t at, std::string_view text, char sign, bool strips_line);
  Result<> lex_comment(size_t begin);
  Result<bool> lex_raw(size_t begin);
  Result<> lex_code(size_t begin, TokenKind end);
  bool accept_end(TokenKind end);
  void end_tag(char sign, bool trims_line);
  Result<> lex_token();
  Result<> lex_number();
  Result<> lex_string();
  Result<> lex_escape(std::string& out);
  Result<> lex_symbol();

  std::string_view source_;
  size_t at_ = 0;
  bool line_starts_ = true;  // the last consumed byte is a line break, or there is none
  uint32_t error_at_ = 0;
  std::vector<char> brackets_;  // closing brackets that are due
  std::vector<Token> tokens_;
  std::deque<std::string> strings_;  // values of string literals
};

}  // namespace tessera::text::jinja
