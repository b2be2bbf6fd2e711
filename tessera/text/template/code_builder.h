// Tokens to read and code to write: the two ends of the parser.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/text/template/lexer.h"
#include "tessera/text/template/program.h"

namespace tessera::text::jinja {

/// Reads tokens in order. The place of an error is that of its token.
class TokenStream {
 public:
  explicit TokenStream(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  const Token& take();
  bool accept_symbol(std::string_view symbol);
  bool accept_name(std::string_view name);
  Result<> expect_symbol(std::string_view symbol);
  Result<> expect_name(std::string_view name);
  /// Takes any name. Errors: format.
  Result<const Token*> expect_any_name(std::string_view wanted);
  Result<> expect(TokenKind kind);

  /// Fails because of the next token: "unexpected X, want WANTED".
  std::unexpected<Error> unexpected(std::string_view wanted);
  template <class... Args>
  std::unexpected<Error> fail_at(uint32_t at, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    error_at_ = at;
    return fail(code, format, std::forward<Args>(args)...);
  }
  uint32_t error_at() const { return error_at_; }

 private:
  const std::vector<Token>& tokens_;
  size_t next_ = 0;
  uint32_t error_at_ = 0;
};

/// Appends instructions, constants and names to a program.
class CodeBuilder {
 public:
  explicit CodeBuilder(Program& program) : program_(program) {}

  Program& program() { return program_; }
  size_t here() const { return code_.size(); }
  Instruction& operator[](size_t i) { return code_[i]; }

  /// Appends an instruction and returns its index.
  size_t emit(Opcode opcode, uint32_t at, int32_t arg = 0, uint16_t n = 0);
  size_t emit_push(uint32_t at, const Value& constant) { return emit(Opcode::push, at, add_constant(constant)); }
  /// Makes a jump go to the next instruction.
  void land(size_t jump) { code_[jump].arg = static_cast<int32_t>(here() - jump); }
  /// Appends a jump to an earlier instruction.
  void emit_jump_back(Opcode opcode, uint32_t at, size_t target);
  /// Inserts a jump in front of code that no other code jumps into or over.
  void insert_jump(size_t index, uint32_t at);

  /// Removes the code from an index on and returns it.
  std::vector<Instruction> cut(size_t begin);
  void append(const std::vector<Instruction>& code) { code_.insert(code_.end(), code.begin(), code.end()); }

  /// Numbers of constants and variables. Equal texts have one number.
  int32_t add_constant(const Value& value);
  int32_t text_constant(std::string_view text);
  int32_t variable(std::string_view name);
  int32_t add_shape(CallShape shape);

  std::vector<Instruction> finish() && { return std::move(code_); }

 private:
  Program& program_;
  std::vector<Instruction> code_;
  std::map<std::string_view, int32_t> texts_;  // keys are in the heap of the program
  std::map<std::string_view, int32_t> variables_;
};

}  // namespace tessera::text::jinja
