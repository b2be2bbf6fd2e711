#include "tessera/text/template/code_builder.h"

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::literal:
    case TokenKind::end:
      return "end of the template";
    case TokenKind::print_begin:
      return "'{{'";
    case TokenKind::tag_begin:
      return "'{%'";
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::tag_end:
      return "'%}'";
    case TokenKind::text:
      return "string " + quote_text(token.text);
    default:
      return fmt::format("'{}'", token.text.size() <= 40 ? token.text : "long name");
  }
}

}  // namespace

const Token& TokenStream::take() {
  const Token& token = peek();
  if (next_ + 1 < tokens_.size()) ++next_;
  return token;
}

bool TokenStream::accept_symbol(std::string_view symbol) {
  if (!peek().is_symbol(symbol)) return false;
  take();
  return true;
}

bool TokenStream::accept_name(std::string_view name) {
  if (!peek().is_name(name)) return false;
  take();
  return true;
}

std::unexpected<Error> TokenStream::unexpected(std::string_view wanted) {
  return fail_at(peek().at, ErrorCode::format, "unexpected {}, want {}", describe(peek()), wanted);
}

Result<> TokenStream::expect_symbol(std::string_view symbol) {
  if (!accept_symbol(symbol)) return unexpected(fmt::format("'{}'", symbol));
  return {};
}

Result<> TokenStream::expect_name(std::string_view name) {
  if (!accept_name(name)) return unexpected(fmt::format("'{}'", name));
  return {};
}

Result<const Token*> TokenStream::expect_any_name(std::string_view wanted) {
  if (peek().kind != TokenKind::name) return unexpected(wanted);
  return &take();
}

Result<> TokenStream::expect(TokenKind kind) {
  if (peek().kind != kind) return unexpected(kind == TokenKind::print_end ? "'}}'" : "'%}'");
  take();
  return {};
}

size_t CodeBuilder::emit(Opcode opcode, uint32_t at, int32_t arg, uint16_t n) {
  code_.push_back({opcode, n, arg, at});
  return here() - 1;
}

void CodeBuilder::emit_jump_back(Opcode opcode, uint32_t at, size_t target) {
  emit(opcode, at, -static_cast<int32_t>(here() - target));
}

void CodeBuilder::insert_jump(size_t index, uint32_t at) {
  code_.insert(code_.begin() + static_cast<ptrdiff_t>(index), Instruction{Opcode::jump, 0, 0, at});
}

std::vector<Instruction> CodeBuilder::cut(size_t begin) {
  std::vector<Instruction> tail(code_.begin() + static_cast<ptrdiff_t>(begin), code_.end());
  code_.resize(begin, Instruction{Opcode::jump});
  return tail;
}

int32_t CodeBuilder::add_constant(const Value& value) {
  program_.constants.push_back(value);
  return static_cast<int32_t>(program_.constants.size() - 1);
}

int32_t CodeBuilder::text_constant(std::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return known->second;
  const int32_t number = add_constant(program_.heap.text(text));
  texts_.emplace(program_.constants[to_size(number)].bytes(), number);
  return number;
}

int32_t CodeBuilder::variable(std::string_view name) {
  if (const auto known = variables_.find(name); known != variables_.end()) return known->second;
  const auto number = static_cast<int32_t>(program_.variables.size());
  program_.variables.push_back(program_.heap.text(name));
  variables_.emplace(program_.variables.back().bytes(), number);
  return number;
}

int32_t CodeBuilder::add_shape(CallShape shape) {
  program_.shapes.push_back(std::move(shape));
  return static_cast<int32_t>(program_.shapes.size() - 1);
}

}  // namespace tessera::text::jinja
