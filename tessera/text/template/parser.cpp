#include "tessera/text/template/parser.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/code_builder.h"
#include "tessera/text/template/error.h"
#include "tessera/text/template/expression_parser.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

using Form = ExpressionParser::Form;

// Statements that Jinja2 has and chat templates cannot use: they need other templates or extensions.
constexpr std::array<std::string_view, 8> kRefusedTags{"include", "import", "from",  "extends",
                                                       "block",   "do",     "trans", "autoescape"};

class StatementParser {
 public:
  StatementParser(Program& program, const std::vector<Token>& tokens)
      : tokens_(tokens), code_(program), expressions_(tokens_, code_) {}

  Result<> run();
  uint32_t error_at() const { return tokens_.error_at(); }

 private:
  static constexpr size_t kMaxDepth = 64;

  enum class What : uint8_t { condition, loop, macro, call, with, set, filter, generation };

  /// An open statement.
  struct Block {
    What what;
    std::string_view tag;
    uint32_t at;
    size_t jump = 0;             // condition: over this branch; macro, call: over the body
    std::vector<size_t> ends{};  // condition: jumps to the end
    size_t next = 0;             // loop: its loop_next
    bool has_else = false;
    bool is_recursive = false;
    int32_t macro = 0;
    int32_t variable = 0;             // macro: its name
    std::vector<Instruction> tail{};  // code that runs after the body
  };

  struct Tag {
    std::string_view name;
    Result<> (StatementParser::*parse)(const Token& tag);
  };
  static const std::array<Tag, 20> kTags;

  Result<> parse_tag();
  Result<> parse_if(const Token& tag);
  Result<> parse_elif(const Token& tag);
  Result<> parse_else(const Token& tag);
  Result<> parse_endif(const Token& tag);
  Result<> parse_for(const Token& tag);
  Result<> parse_endfor(const Token& tag);
  Result<> parse_break(const Token& tag);
  Result<> parse_set(const Token& tag);
  Result<> parse_endset(const Token& tag);
  Result<> parse_macro(const Token& tag);
  Result<> parse_endmacro(const Token& tag);
  Result<> parse_call(const Token& tag);
  Result<> parse_endcall(const Token& tag);
  Result<> parse_filter(const Token& tag);
  Result<> parse_endfilter(const Token& tag);
  Result<> parse_with(const Token& tag);
  Result<> parse_endwith(const Token& tag);
  Result<> parse_generation(const Token& tag);
  Result<> parse_endgeneration(const Token& tag);

  Result<> open(What what, const Token& tag);
  Result<Block> close(What what, const Token& tag);
  Result<> end_tag() { return tokens_.expect(TokenKind::tag_end); }
  Result<> parse_expression(Form form);
  Result<std::vector<Instruction>> parse_target(bool allows_member);
  Result<> parse_one_target(bool allows_member);
  void begin_macro(const Token& tag, std::string_view name);
  Result<> parse_parameters();
  void end_macro(const Block& block);
  bool is_conditional() const;
  void note_variables();
  void note_macro_variables();

  TokenStream tokens_;
  CodeBuilder code_;
  ExpressionParser expressions_;
  std::vector<Block> blocks_;
};

const std::array<StatementParser::Tag, 20> StatementParser::kTags{{
    {"if", &StatementParser::parse_if},
    {"elif", &StatementParser::parse_elif},
    {"else", &StatementParser::parse_else},
    {"endif", &StatementParser::parse_endif},
    {"for", &StatementParser::parse_for},
    {"endfor", &StatementParser::parse_endfor},
    {"break", &StatementParser::parse_break},
    {"continue", &StatementParser::parse_break},
    {"set", &StatementParser::parse_set},
    {"endset", &StatementParser::parse_endset},
    {"macro", &StatementParser::parse_macro},
    {"endmacro", &StatementParser::parse_endmacro},
    {"call", &StatementParser::parse_call},
    {"endcall", &StatementParser::parse_endcall},
    {"filter", &StatementParser::parse_filter},
    {"endfilter", &StatementParser::parse_endfilter},
    {"with", &StatementParser::parse_with},
    {"endwith", &StatementParser::parse_endwith},
    {"generation", &StatementParser::parse_generation},
    {"endgeneration", &StatementParser::parse_endgeneration},
}};

Result<> StatementParser::run() {
  while (tokens_.peek().kind != TokenKind::end) {
    const Token& token = tokens_.take();
    if (token.kind == TokenKind::literal) {
      code_.emit(Opcode::emit, token.at, code_.text_constant(token.text));
    } else if (token.kind == TokenKind::print_begin) {
      TESSERA_TRY(parse_expression(Form::tuple));
      TESSERA_TRY(tokens_.expect(TokenKind::print_end));
      code_.emit(Opcode::print, token.at);
    } else {
      TESSERA_TRY(parse_tag());
    }
  }
  if (!blocks_.empty())
    return tokens_.fail_at(blocks_.back().at, ErrorCode::format, "'{0}' without 'end{0}'", blocks_.back().tag);
  note_variables();
  note_macro_variables();
  code_.program().code = std::move(code_).finish();
  return {};
}

Result<> StatementParser::parse_tag() {
  TESSERA_ASSIGN(const Token* name, tokens_.expect_any_name("the name of a statement"));
  const auto tag = std::ranges::find(kTags, name->text, &Tag::name);
  if (tag != kTags.end()) {
    TESSERA_TRY((this->*tag->parse)(*name));
    return end_tag();
  }
  if (std::ranges::find(kRefusedTags, name->text) != kRefusedTags.end())
    return tokens_.fail_at(name->at, ErrorCode::invalid_argument, "'{}' is not available to chat templates",
                           name->text);
  return tokens_.fail_at(name->at, ErrorCode::format, "unknown statement {}", quote_text(name->text));
}

Result<> StatementParser::parse_expression(Form form) {
  expressions_.set_conditional(is_conditional());
  return expressions_.parse(form);
}

bool StatementParser::is_conditional() const {
  return std::ranges::any_of(blocks_, [](const Block& block) { return block.what == What::condition; });
}

Result<> StatementParser::open(What what, const Token& tag) {
  if (blocks_.size() == kMaxDepth) return tokens_.fail_at(tag.at, ErrorCode::limit, "nested deeper than {}", kMaxDepth);
  blocks_.push_back({.what = what, .tag = tag.text, .at = tag.at});
  return {};
}

Result<StatementParser::Block> StatementParser::close(What what, const Token& tag) {
  if (blocks_.empty() || blocks_.back().what != what) {
    const std::string open = blocks_.empty() ? "no statement is open" : fmt::format("'{}' is open", blocks_.back().tag);
    return tokens_.fail_at(tag.at, ErrorCode::format, "unexpected '{}', {}", tag.text, open);
  }
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  return block;
}

Result<> StatementParser::parse_if(const Token& tag) {
  TESSERA_TRY(open(What::condition, tag));
  TESSERA_TRY(parse_expression(Form::tuple));
  blocks_.back().jump = code_.emit(Opcode::jump_if_false, tag.at);
  return {};
}

Result<> StatementParser::parse_elif(const Token& tag) {
  TESSERA_ASSIGN(Block block, close(What::condition, tag));
  if (block.has_else) return tokens_.fail_at(tag.at, ErrorCode::format, "'elif' after 'else'");
  block.ends.push_back(code_.emit(Opcode::jump, tag.at));
  code_.land(block.jump);
  blocks_.push_back(std::move(block));
  TESSERA_TRY(parse_expression(Form::tuple));
  blocks_.back().jump = code_.emit(Opcode::jump_if_false, tag.at);
  return {};
}

Result<> StatementParser::parse_else(const Token& tag) {
  if (!blocks_.empty() && blocks_.back().has_else) return tokens_.fail_at(tag.at, ErrorCode::format, "second 'else'");
  if (!blocks_.empty() && blocks_.back().what == What::loop) {
    Block& loop = blocks_.back();
    code_.emit_jump_back(Opcode::jump, tag.at, loop.next);
    code_.land(loop.next);
    loop.jump = code_.emit(Opcode::loop_end, tag.at);
    loop.has_else = true;
    return {};
  }
  TESSERA_ASSIGN(Block block, close(What::condition, tag));
  block.ends.push_back(code_.emit(Opcode::jump, tag.at));
  code_.land(block.jump);
  block.has_else = true;
  blocks_.push_back(std::move(block));
  return {};
}

Result<> StatementParser::parse_endif(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::condition, tag));
  if (!block.has_else) code_.land(block.jump);
  for (const size_t jump : block.ends) code_.land(jump);
  return {};
}

// One name, or names in brackets: code that stores the value on the stack.
Result<> StatementParser::parse_one_target(bool allows_member) {
  TESSERA_ASSIGN(const Token* name, tokens_.expect_any_name("the name of a variable"));
  const int32_t variable = code_.variable(name->text);
  if (!allows_member || !tokens_.accept_symbol(".")) {
    code_.emit(Opcode::store, name->at, variable);
    return {};
  }
  TESSERA_ASSIGN(const Token* member, tokens_.expect_any_name("the name of a member"));
  const auto constant = code_.text_constant(member->text);
  if (constant > UINT16_MAX) return tokens_.fail_at(member->at, ErrorCode::limit, "more than 65536 names");
  code_.emit(Opcode::store_member, name->at, variable, static_cast<uint16_t>(constant));
  return {};
}

// NAME, (NAME, NAME), NAME, (NAME, NAME): an unpack for each list of names, in the order of the source.
Result<std::vector<Instruction>> StatementParser::parse_target(bool allows_member) {
  struct Names {
    size_t unpack;
    int32_t n = 0;
    bool has_comma = false;
  };
  const size_t begin = code_.here();
  std::vector<Names> open{{code_.emit(Opcode::unpack, tokens_.peek().at)}};
  while (true) {
    if (tokens_.peek().is_symbol("(")) {
      open.push_back({code_.emit(Opcode::unpack, tokens_.take().at)});
      continue;
    }
    TESSERA_TRY(parse_one_target(allows_member));
    ++open.back().n;
    while (open.size() > 1 && tokens_.accept_symbol(")")) {
      code_[open.back().unpack].arg = open.back().has_comma ? open.back().n : 0;
      open.pop_back();
      ++open.back().n;
    }
    if (!tokens_.accept_symbol(",")) break;
    open.back().has_comma = true;
  }
  if (open.size() > 1) return tokens_.unexpected("')'");
  std::vector<Instruction> code = code_.cut(begin);
  code[0].arg = open[0].has_comma ? open[0].n : 0;
  return code;
}

// The code of a loop: SOURCE collect [select_begin select_next TARGET CONDITION select_keep jump select_end]
// loop_begin loop_next TARGET BODY jump loop_end [ELSE] [loop_return].
Result<> StatementParser::parse_for(const Token& tag) {
  TESSERA_TRY(open(What::loop, tag));
  TESSERA_ASSIGN(const std::vector<Instruction> target, parse_target(false));
  TESSERA_TRY(tokens_.expect_name("in"));
  TESSERA_TRY(parse_expression(Form::loop_source));
  const size_t collect = code_.emit(Opcode::collect, tag.at);
  if (tokens_.peek().is_name("if")) {
    const uint32_t at = tokens_.take().at;
    code_.emit(Opcode::select_begin, at);
    const size_t next = code_.emit(Opcode::select_next, at);
    code_.append(target);
    TESSERA_TRY(parse_expression(Form::single));
    code_.emit(Opcode::select_keep, at);
    code_.emit_jump_back(Opcode::jump, at, next);
    code_.land(next);
    code_.emit(Opcode::select_end, at);
  }
  Block& block = blocks_.back();
  block.is_recursive = tokens_.accept_name("recursive");
  const auto distance = static_cast<int32_t>(code_.here() - collect);
  code_.emit(Opcode::loop_begin, tag.at, distance, block.is_recursive ? 1 : 0);
  block.next = code_.emit(Opcode::loop_next, tag.at);
  code_.append(target);
  return {};
}

Result<> StatementParser::parse_endfor(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::loop, tag));
  if (!block.has_else) {
    code_.emit_jump_back(Opcode::jump, tag.at, block.next);
    code_.land(block.next);
    code_.land(code_.emit(Opcode::loop_end, tag.at));
  } else {
    code_.land(block.jump);
  }
  if (block.is_recursive) code_.emit(Opcode::loop_return, tag.at);
  return {};
}

// break and continue: leaves the statements inside the loop, then jumps.
Result<> StatementParser::parse_break(const Token& tag) {
  const bool is_break = tag.text == "break";
  for (size_t i = blocks_.size(); i-- > 0;) {
    const Block& block = blocks_[i];
    if (block.what == What::macro || block.what == What::call) break;
    if (block.what == What::set || block.what == What::filter) code_.emit(Opcode::drop_capture, tag.at);
    if (block.what == What::generation) code_.emit(Opcode::end_generation, tag.at);
    const bool is_loop = block.what == What::loop && !block.has_else;
    if (!is_loop && block.what != What::condition && block.what != What::loop) code_.emit(Opcode::pop_scope, tag.at);
    if (!is_loop) continue;
    // loop_next jumps to the end of the loop if no element is left, so `break` drops the elements first.
    if (is_break) code_.emit(Opcode::drop_elements, tag.at);
    code_.emit_jump_back(Opcode::jump, tag.at, block.next);
    return {};
  }
  return tokens_.fail_at(tag.at, ErrorCode::format, "'{}' outside of a loop", tag.text);
}

Result<> StatementParser::parse_set(const Token& tag) {
  TESSERA_ASSIGN(std::vector<Instruction> target, parse_target(true));
  if (tokens_.accept_symbol("=")) {
    TESSERA_TRY(parse_expression(Form::tuple));
    code_.append(target);
    return {};
  }
  TESSERA_TRY(open(What::set, tag));
  const size_t begin = code_.here();
  if (tokens_.accept_symbol("|")) TESSERA_TRY(parse_expression(Form::filters));
  Block& block = blocks_.back();
  block.tail = code_.cut(begin);
  block.tail.insert(block.tail.end(), target.begin(), target.end());
  code_.emit(Opcode::push_scope, tag.at);
  code_.emit(Opcode::begin_capture, tag.at);
  return {};
}

Result<> StatementParser::parse_endset(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::set, tag));
  code_.emit(Opcode::end_capture, tag.at);
  code_.emit(Opcode::pop_scope, tag.at);
  code_.append(block.tail);
  return {};
}

Result<> StatementParser::parse_filter(const Token& tag) {
  TESSERA_TRY(open(What::filter, tag));
  const size_t begin = code_.here();
  TESSERA_TRY(parse_expression(Form::filters));
  blocks_.back().tail = code_.cut(begin);
  code_.emit(Opcode::push_scope, tag.at);
  code_.emit(Opcode::begin_capture, tag.at);
  return {};
}

Result<> StatementParser::parse_endfilter(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::filter, tag));
  code_.emit(Opcode::end_capture, tag.at);
  code_.emit(Opcode::pop_scope, tag.at);
  code_.append(block.tail);
  code_.emit(Opcode::print, tag.at);
  return {};
}

// with a = 1, b = 2: all values are computed before the scope begins.
Result<> StatementParser::parse_with(const Token& tag) {
  TESSERA_TRY(open(What::with, tag));
  std::vector<std::vector<Instruction>> targets;
  while (tokens_.peek().kind == TokenKind::name) {
    const size_t begin = code_.here();
    TESSERA_TRY(parse_one_target(false));
    targets.push_back(code_.cut(begin));
    TESSERA_TRY(tokens_.expect_symbol("="));
    TESSERA_TRY(parse_expression(Form::single));
    if (!tokens_.accept_symbol(",")) break;
  }
  code_.emit(Opcode::push_scope, tag.at);
  for (size_t i = targets.size(); i-- > 0;) code_.append(targets[i]);
  return {};
}

Result<> StatementParser::parse_endwith(const Token& tag) {
  TESSERA_TRY(close(What::with, tag));
  code_.emit(Opcode::pop_scope, tag.at);
  return {};
}

Result<> StatementParser::parse_generation(const Token& tag) {
  TESSERA_TRY(open(What::generation, tag));
  code_.emit(Opcode::push_scope, tag.at);
  code_.emit(Opcode::begin_generation, tag.at);
  return {};
}

Result<> StatementParser::parse_endgeneration(const Token& tag) {
  TESSERA_TRY(close(What::generation, tag));
  code_.emit(Opcode::end_generation, tag.at);
  code_.emit(Opcode::pop_scope, tag.at);
  return {};
}

// Adds a macro whose body follows, and a jump over that body.
void StatementParser::begin_macro(const Token& tag, std::string_view name) {
  Program& program = code_.program();
  Block& block = blocks_.back();
  block.jump = code_.emit(Opcode::jump, tag.at);
  block.macro = static_cast<int32_t>(program.macros.size());
  const int32_t constant = code_.text_constant(name);
  program.macros.push_back({.name = program.constants[to_size(constant)], .entry = static_cast<int32_t>(code_.here())});
}

// (a, b=1): behind the opening bracket. The code of a default runs at the start of the body.
Result<> StatementParser::parse_parameters() {
  const size_t macro = to_size(blocks_.back().macro);
  while (!tokens_.accept_symbol(")")) {
    TESSERA_ASSIGN(const Token* name, tokens_.expect_any_name("the name of a parameter"));
    const int32_t variable = code_.variable(name->text);
    auto& parameters = code_.program().macros[macro].parameters;
    if (parameters.size() == UINT16_MAX)
      return tokens_.fail_at(name->at, ErrorCode::limit, "more than 65535 parameters");
    parameters.push_back(static_cast<uint32_t>(variable));
    const bool has_default = tokens_.accept_symbol("=");
    code_.program().macros[macro].has_default.push_back(has_default);
    if (has_default) {
      const auto n = static_cast<uint16_t>(code_.program().macros[macro].parameters.size() - 1);
      const size_t jump = code_.emit(Opcode::default_argument, name->at, 0, n);
      TESSERA_TRY(parse_expression(Form::single));
      code_.emit(Opcode::store, name->at, variable);
      code_.land(jump);
    }
    if (!tokens_.peek().is_symbol(")")) TESSERA_TRY(tokens_.expect_symbol(","));
  }
  return {};
}

Result<> StatementParser::parse_macro(const Token& tag) {
  TESSERA_TRY(open(What::macro, tag));
  TESSERA_ASSIGN(const Token* name, tokens_.expect_any_name("the name of a macro"));
  blocks_.back().variable = code_.variable(name->text);
  begin_macro(tag, name->text);
  TESSERA_TRY(tokens_.expect_symbol("("));
  return parse_parameters();
}

void StatementParser::end_macro(const Block& block) {
  code_.emit(Opcode::return_macro, block.at);
  code_.land(block.jump);
  MacroCode& macro = code_.program().macros[to_size(block.macro)];
  macro.end = static_cast<int32_t>(code_.here());
}

Result<> StatementParser::parse_endmacro(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::macro, tag));
  if (tokens_.peek().kind == TokenKind::name) tokens_.take();  // {% endmacro NAME %}
  end_macro(block);
  code_.emit(Opcode::macro, block.at, block.macro);
  code_.emit(Opcode::store, block.at, block.variable);
  return {};
}

// {% call(x) f() %}BODY{% endcall %} is f(caller=MACRO), where MACRO(x) is BODY.
Result<> StatementParser::parse_call(const Token& tag) {
  TESSERA_TRY(open(What::call, tag));
  begin_macro(tag, "caller");
  if (tokens_.accept_symbol("(")) TESSERA_TRY(parse_parameters());
  const size_t begin = code_.here();
  TESSERA_TRY(parse_expression(Form::single));
  Block& block = blocks_.back();
  block.tail = code_.cut(begin);
  if (block.tail.back().opcode != Opcode::call)
    return tokens_.fail_at(tag.at, ErrorCode::format, "'call' wants a call: call f()");
  CallShape& shape = code_.program().shapes[to_size(block.tail.back().arg)];
  const int32_t name = code_.text_constant("caller");
  shape.arguments.push_back({CallShape::Passing::keyword, code_.program().constants[to_size(name)]});
  block.tail.insert(block.tail.end() - 1, {Opcode::macro, 0, block.macro, tag.at});
  block.tail.push_back({Opcode::print, 0, 0, tag.at});
  return {};
}

Result<> StatementParser::parse_endcall(const Token& tag) {
  TESSERA_ASSIGN(const Block block, close(What::call, tag));
  end_macro(block);
  code_.append(block.tail);
  return {};
}

// Numbers the variables that the interpreter sets, and finds the functions among all variables.
void StatementParser::note_variables() {
  Program& program = code_.program();
  program.loop = code_.variable("loop");
  program.caller = code_.variable("caller");
  program.varargs = code_.variable("varargs");
  program.kwargs = code_.variable("kwargs");
  for (const Value& name : program.variables) {
    const Function* function = find_function(name.bytes());
    program.globals.push_back(function == nullptr ? Value() : Value::of(function));
  }
}

// Notes which macros read varargs, kwargs or caller: only these accept such arguments.
void StatementParser::note_macro_variables() {
  Program& program = code_.program();
  std::vector<int32_t> n_varargs{0}, n_kwargs{0}, n_caller{0};  // uses before each instruction
  for (size_t i = 0; i < code_.here(); ++i) {
    const Instruction& instruction = code_[i];
    const int32_t variable = instruction.opcode == Opcode::load ? instruction.arg : -1;
    n_varargs.push_back(n_varargs.back() + (variable == program.varargs ? 1 : 0));
    n_kwargs.push_back(n_kwargs.back() + (variable == program.kwargs ? 1 : 0));
    n_caller.push_back(n_caller.back() + (variable == program.caller ? 1 : 0));
  }
  for (MacroCode& macro : program.macros) {
    const size_t begin = to_size(macro.entry), end = to_size(macro.end);
    macro.uses_varargs = n_varargs[end] > n_varargs[begin];
    macro.uses_kwargs = n_kwargs[end] > n_kwargs[begin];
    macro.uses_caller = n_caller[end] > n_caller[begin];
  }
}

}  // namespace

std::expected<std::unique_ptr<const Program>, TemplateError> parse_program(std::string source) {
  auto program = std::make_unique<Program>();
  program->source = std::move(source);
  Lexer lexer(program->source);
  if (const auto lexed = lexer.run(); !lexed)
    return std::unexpected(error_at(program->source, lexer.error_at(), lexed.error()));
  StatementParser parser(*program, lexer.tokens());
  if (const auto parsed = parser.run(); !parsed)
    return std::unexpected(error_at(program->source, parser.error_at(), parsed.error()));
  return program;
}

}  // namespace tessera::text::jinja
