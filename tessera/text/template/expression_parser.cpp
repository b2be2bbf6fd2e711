#include "tessera/text/template/expression_parser.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/numbers.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

// Strengths of operators, weakest first. Filters bind to the result of a unary operator: -2|abs is 2.
constexpr int kOr = 1, kAnd = 2, kNot = 3, kComparison = 4, kUnary = 9, kTestOperand = 10;

struct BinaryOperator {
  std::string_view symbol;
  int strength;
  Opcode opcode;
  uint16_t n;
};

constexpr uint16_t number_of(Arithmetic op) { return static_cast<uint16_t>(op); }

constexpr std::array<BinaryOperator, 8> kBinaryOperators{{
    {"+", 5, Opcode::arithmetic, number_of(Arithmetic::add)},
    {"-", 5, Opcode::arithmetic, number_of(Arithmetic::subtract)},
    {"~", 6, Opcode::concat, 0},
    {"*", 7, Opcode::arithmetic, number_of(Arithmetic::multiply)},
    {"/", 7, Opcode::arithmetic, number_of(Arithmetic::divide)},
    {"//", 7, Opcode::arithmetic, number_of(Arithmetic::floor_divide)},
    {"%", 7, Opcode::arithmetic, number_of(Arithmetic::modulo)},
    {"**", 8, Opcode::arithmetic, number_of(Arithmetic::power)},
}};

struct ComparisonOperator {
  std::string_view symbol;
  Comparison comparison;
};

constexpr std::array<ComparisonOperator, 6> kComparisons{{{"==", Comparison::equal},
                                                          {"!=", Comparison::not_equal},
                                                          {"<", Comparison::less},
                                                          {"<=", Comparison::less_equal},
                                                          {">", Comparison::greater},
                                                          {">=", Comparison::greater_equal}}};

struct NamedConstant {
  std::string_view name;
  Value value;
};

constexpr std::array<NamedConstant, 6> kNamedConstants{{{"true", Value::boolean(true)},
                                                        {"True", Value::boolean(true)},
                                                        {"false", Value::boolean(false)},
                                                        {"False", Value::boolean(false)},
                                                        {"none", Value::none()},
                                                        {"None", Value::none()}}};

// Words that follow a test without being its argument.
constexpr std::array<std::string_view, 7> kWordsAfterTest{"else", "or", "and", "if", "not", "in", "is"};

template <class Row, size_t kN>
const Row* find_symbol(const std::array<Row, kN>& rows, const Token& token) {
  if (token.kind != TokenKind::symbol) return nullptr;
  const auto row = std::ranges::find(rows, token.text, &Row::symbol);
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

ExpressionParser::Item& ExpressionParser::push(What what, uint32_t at) {
  Item item{.what = what, .at = at};
  item.begin = code_.here();
  wants_operand_ = true;
  return items_.emplace_back(std::move(item));
}

void ExpressionParser::push_operator(What what, int strength, Opcode opcode, uint16_t n, uint32_t at) {
  Item& item = push(what, at);
  item.strength = strength;
  item.opcode = opcode;
  item.n = n;
}

bool ExpressionParser::holds_arguments(const Item& item) const {
  return item.what == What::call || item.what == What::filter || item.what == What::test;
}

// Emits the operators on top of the stack that are at least as strong.
void ExpressionParser::reduce(int strength) {
  while (items_.back().strength >= strength) {
    const Item item = std::move(items_.back());
    items_.pop_back();
    emit_operator(item);
  }
}

void ExpressionParser::emit_operator(const Item& item) {
  if (item.what == What::logical) return code_.land(item.jump);
  if (item.what == What::test_operand) return emit_call(item);
  code_.emit(item.opcode, item.at, 0, item.n);
  for (const size_t jump : item.jumps) code_.land(jump);
}

// Ends VALUE if CONDITION without else: a false condition gives undefined.
void ExpressionParser::finish_condition() {
  const Item& item = items_.back();
  code_.emit_jump_back(Opcode::jump_if_true, item.at, item.begin + 1);
  code_.emit_push(item.at, Value::undefined());
  code_.land(item.jump);
  items_.pop_back();
}

// Ends the expression on top of the innermost bracket: operators and inline ifs.
void ExpressionParser::finish_element() {
  while (true) {
    reduce(1);
    if (items_.back().what == What::condition) {
      finish_condition();
    } else if (items_.back().what == What::alternative) {
      code_.land(items_.back().jump);
      items_.pop_back();
    } else {
      return;
    }
  }
}

Result<> ExpressionParser::parse(Form form) {
  form_ = form;
  items_.clear();
  has_inline_if_ = false;
  unknown_.clear();
  push(What::whole, tokens_.peek().at);
  if (form == Form::filters) TESSERA_TRY(parse_filter());
  while (true) {
    if (wants_operand_) {
      TESSERA_TRY(parse_operand());
      continue;
    }
    if (form == Form::filters && items_.size() == 1 && !tokens_.peek().is_symbol("|")) break;
    TESSERA_ASSIGN(const bool continues, continue_operand());
    if (!continues) break;
  }
  finish_element();
  if (items_.size() > 1) return tokens_.unexpected("an operator or a closing bracket");
  if (items_[0].count > 0) code_.emit(Opcode::make_tuple, items_[0].at, items_[0].count + (items_[0].is_fresh ? 0 : 1));
  if (!unknown_.empty() && !is_conditional_ && !has_inline_if_)
    return tokens_.fail_at(unknown_at_, ErrorCode::format, "{}", unknown_);
  return {};
}

// An operand, or a prefix of one: a unary operator, an opening bracket.
Result<> ExpressionParser::parse_operand() {
  if (items_.back().is_fresh) {
    TESSERA_ASSIGN(const bool is_done, begin_element());
    if (is_done) return {};
  }
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::name) return parse_name(tokens_.take());
  if (token.kind == TokenKind::number) {
    code_.emit_push(token.at, tokens_.take().number);
    wants_operand_ = false;
    return {};
  }
  if (token.kind == TokenKind::text) {
    std::string text;
    while (tokens_.peek().kind == TokenKind::text) text += tokens_.take().text;
    code_.emit(Opcode::push, token.at, code_.text_constant(text));
    wants_operand_ = false;
    return {};
  }
  if (token.is_symbol("-")) {
    push_operator(What::unary, kUnary, Opcode::negate, 0, tokens_.take().at);
  } else if (token.is_symbol("+")) {
    push_operator(What::unary, kUnary, Opcode::plus, 0, tokens_.take().at);
  } else if (token.is_symbol("(")) {
    push(What::group, tokens_.take().at);
  } else if (token.is_symbol("[")) {
    push(What::list, tokens_.take().at);
  } else if (token.is_symbol("{")) {
    push(What::dict, tokens_.take().at);
  } else {
    return tokens_.unexpected("an expression");
  }
  return {};
}

// The first token of an element between brackets. Returns true if it is more than the begin of an expression: a closing
// bracket, a prefix of an argument, a bound of a slice that is left out.
Result<bool> ExpressionParser::begin_element() {
  Item& top = items_.back();
  if (top.what == What::subscript) return begin_bound();
  const bool is_bracket = top.what == What::group || top.what == What::list || top.what == What::dict;
  const Token& token = tokens_.peek();
  const bool closes = token.is_symbol(")") || token.is_symbol("]") || token.is_symbol("}");
  if (closes && (is_bracket || holds_arguments(top))) {
    TESSERA_TRY(close_bracket());
    return true;
  }
  if (holds_arguments(top)) return begin_argument();
  top.is_fresh = false;
  return false;
}

Result<bool> ExpressionParser::begin_argument() {
  using Passing = CallShape::Passing;
  CallShape& shape = items_.back().shape;
  const Token& token = tokens_.peek();
  CallShape::Argument argument{Passing::positional};
  if (token.is_symbol("*") || token.is_symbol("**")) {
    argument.passing = tokens_.take().text == "*" ? Passing::star : Passing::double_star;
  } else if (token.kind == TokenKind::name && tokens_.peek(1).is_symbol("=")) {
    const int32_t name = code_.text_constant(tokens_.take().text);
    tokens_.take();
    argument = {Passing::keyword, code_.program().constants[to_size(name)]};
  } else if (!shape.arguments.empty() && shape.arguments.back().passing != Passing::positional) {
    return tokens_.unexpected("a keyword argument");
  }
  shape.arguments.push_back(argument);
  items_.back().is_fresh = false;
  items_.back().begin = code_.here();
  return false;
}

// Bounds of a slice that are left out are none.
Result<bool> ExpressionParser::begin_bound() {
  Item& top = items_.back();
  if (tokens_.peek().is_symbol(":")) {
    if (top.count == 2) return tokens_.unexpected("']'");
    code_.emit_push(tokens_.take().at, Value::none());
    ++top.count;
    return true;
  }
  if (top.count > 0 && tokens_.peek().is_symbol("]")) {
    code_.emit_push(tokens_.peek().at, Value::none());
    TESSERA_TRY(close_bracket());
    return true;
  }
  top.is_fresh = false;
  top.begin = code_.here();
  return false;
}

Result<> ExpressionParser::parse_name(const Token& token) {
  if (token.text == "not") {
    push_operator(What::unary, kNot, Opcode::logical_not, 0, token.at);
    return {};
  }
  wants_operand_ = false;
  const auto constant = std::ranges::find(kNamedConstants, token.text, &NamedConstant::name);
  if (constant != kNamedConstants.end()) {
    code_.emit_push(token.at, constant->value);
  } else {
    code_.emit(Opcode::load, token.at, code_.variable(token.text));
  }
  return {};
}

// A token behind an operand. Returns false if it ends the expression.
Result<bool> ExpressionParser::continue_operand() {
  if (tokens_.peek().kind == TokenKind::name) return continue_with_name();
  if (tokens_.peek().kind == TokenKind::symbol) return continue_with_symbol();
  return false;
}

Result<bool> ExpressionParser::continue_with_symbol() {
  const Token& token = tokens_.peek();
  if (token.is_symbol(",")) return separate();
  if (token.is_symbol(":")) return end_key();
  if (token.is_symbol(")") || token.is_symbol("]") || token.is_symbol("}")) {
    finish_element();
    if (items_.back().what == What::whole) return false;  // a bracket of the statement
    TESSERA_TRY(close_bracket());
    return true;
  }
  if (const auto* op = find_symbol(kBinaryOperators, token)) {
    reduce(op->strength);
    push_operator(What::binary, op->strength, op->opcode, op->n, tokens_.take().at);
    return true;
  }
  if (const auto* op = find_symbol(kComparisons, token)) {
    add_comparison(op->comparison, tokens_.take().at);
    return true;
  }
  if (token.is_symbol("[")) {
    push(What::subscript, tokens_.take().at);
    return true;
  }
  if (token.is_symbol("(")) {
    push(What::call, tokens_.take().at);
    return true;
  }
  if (token.is_symbol("|")) {
    tokens_.take();
    TESSERA_TRY(parse_filter());
    return true;
  }
  if (!token.is_symbol(".")) return false;
  tokens_.take();
  TESSERA_TRY(parse_member());
  return true;
}

Result<bool> ExpressionParser::continue_with_name() {
  const Token& token = tokens_.peek();
  if (token.text == "and" || token.text == "or") {
    const bool is_and = tokens_.take().text == "and";
    reduce(is_and ? kAnd : kOr);
    const size_t jump = code_.emit(is_and ? Opcode::and_jump : Opcode::or_jump, token.at);
    push_operator(What::logical, is_and ? kAnd : kOr, Opcode::jump, 0, token.at);
    items_.back().jump = jump;
    return true;
  }
  if (token.text == "in") {
    add_comparison(Comparison::in, tokens_.take().at);
    return true;
  }
  if (token.text == "not" && tokens_.peek(1).is_name("in")) {
    tokens_.take();
    add_comparison(Comparison::not_in, tokens_.take().at);
    return true;
  }
  if (token.text == "is") {
    TESSERA_TRY(parse_test(tokens_.take().at));
    return true;
  }
  if (token.text == "if") return begin_inline_if(token);
  if (token.text != "else") return false;
  reduce(1);
  if (items_.back().what != What::condition) return false;
  begin_alternative();
  return true;
}

// a < b < c: every comparison but the last keeps its right operand for the next one, or ends the chain.
void ExpressionParser::add_comparison(Comparison comparison, uint32_t at) {
  reduce(kComparison + 1);
  if (items_.back().what != What::comparison) {
    push_operator(What::comparison, kComparison, Opcode::compare, static_cast<uint16_t>(comparison), at);
    return;
  }
  Item& first = items_.back();
  first.jumps.push_back(code_.emit(Opcode::compare_chain, first.at, 0, first.n));
  first.n = static_cast<uint16_t>(comparison);
  first.at = at;
  wants_operand_ = true;
}

// VALUE if CONDITION else OTHER. The code of VALUE is already written, but runs after that of CONDITION: jump to the
// condition, VALUE, jump to the end, CONDITION, jump back to VALUE if true, OTHER.
bool ExpressionParser::begin_inline_if(const Token& token) {
  if (form_ == Form::loop_source) {
    const bool is_nested = std::ranges::any_of(items_, [](const Item& i) { return i.what > What::whole; });
    if (!is_nested) return false;
  }
  reduce(1);
  if (items_.back().what == What::condition) finish_condition();  // a if b if c
  has_inline_if_ = true;
  const size_t begin = items_.back().begin;
  code_.insert_jump(begin, token.at);
  const size_t end_jump = code_.emit(Opcode::jump, token.at);
  code_.land(begin);
  Item& item = push(What::condition, tokens_.take().at);
  item.begin = begin;
  item.jump = end_jump;
  return true;
}

void ExpressionParser::begin_alternative() {
  Item& item = items_.back();
  code_.emit_jump_back(Opcode::jump_if_true, item.at, item.begin + 1);
  item.what = What::alternative;
  item.begin = code_.here();
  tokens_.take();
  wants_operand_ = true;
}

Result<> ExpressionParser::parse_member() {
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::number && token.number.is(Kind::integer)) {
    code_.emit_push(token.at, tokens_.take().number);
    code_.emit(Opcode::item, token.at);
    return {};
  }
  TESSERA_ASSIGN(const Token* name, tokens_.expect_any_name("the name of a member"));
  code_.emit(Opcode::attribute, name->at, code_.text_constant(name->text), is_method_name(name->text) ? 1 : 0);
  return {};
}

Result<std::string> ExpressionParser::parse_dotted_name(std::string_view wanted) {
  TESSERA_ASSIGN(const Token* first, tokens_.expect_any_name(wanted));
  std::string name(first->text);
  while (tokens_.accept_symbol(".")) {
    TESSERA_ASSIGN(const Token* next, tokens_.expect_any_name(wanted));
    name.append(".").append(next->text);
  }
  return name;
}

// Behind '|'.
Result<> ExpressionParser::parse_filter() {
  reduce(kUnary);
  const uint32_t at = tokens_.peek().at;
  TESSERA_ASSIGN(const std::string name, parse_dotted_name("the name of a filter"));
  const Filter* filter = find_filter(name);
  if (filter == nullptr) note_unknown("filter", name, at);
  Item& item = push(What::filter, at);
  item.opcode = filter == nullptr ? Opcode::unknown : Opcode::filter;
  item.n = filter == nullptr ? 0 : static_cast<uint16_t>(filter - filters().data());
  if (tokens_.accept_symbol("(")) return {};
  emit_call(items_.back());
  items_.pop_back();
  wants_operand_ = false;
  return {};
}

// Behind `is`.
Result<> ExpressionParser::parse_test(uint32_t at) {
  reduce(kUnary);
  const bool is_negated = tokens_.accept_name("not");
  TESSERA_ASSIGN(const std::string name, parse_dotted_name("the name of a test"));
  const Test* test = find_test(name);
  if (test == nullptr) note_unknown("test", name, at);
  Item& item = push(What::test, at);
  item.opcode = test == nullptr ? Opcode::unknown : Opcode::test;
  item.n = test == nullptr ? 0 : static_cast<uint16_t>(test - tests().data());
  item.is_negated = is_negated;
  const Token& next = tokens_.peek();
  if (tokens_.accept_symbol("(")) return {};
  const bool is_operand = next.kind == TokenKind::name || next.kind == TokenKind::text ||
                          next.kind == TokenKind::number || next.is_symbol("[") || next.is_symbol("{");
  if (is_operand &&
      (next.kind != TokenKind::name || std::ranges::find(kWordsAfterTest, next.text) == kWordsAfterTest.end())) {
    item.what = What::test_operand;
    item.strength = kTestOperand;
    item.is_fresh = false;
    item.shape.arguments.push_back({CallShape::Passing::positional});
    return {};
  }
  emit_call(items_.back());
  items_.pop_back();
  wants_operand_ = false;
  return {};
}

void ExpressionParser::note_unknown(std::string_view what, std::string_view name, uint32_t at) {
  if (!unknown_.empty()) return;
  unknown_ = fmt::format("unknown {} {}", what, quote_text(name));
  unknown_at_ = at;
}

// ',' behind an operand.
Result<bool> ExpressionParser::separate() {
  finish_element();
  Item& top = items_.back();
  if (top.what == What::whole) {
    if (form_ == Form::single) return false;
    tokens_.take();
    ++top.count;
    top.begin = code_.here();
    top.is_fresh = ends_tuple(tokens_.peek());
    wants_operand_ = !top.is_fresh;
    return true;
  }
  if (top.what == What::subscript) return tokens_.unexpected("']'");
  if (top.what == What::dict && top.jump == 0) return tokens_.unexpected("':'");
  tokens_.take();
  ++top.count;
  top.jump = 0;
  top.is_fresh = true;
  top.begin = code_.here();
  wants_operand_ = true;
  return true;
}

bool ExpressionParser::ends_tuple(const Token& token) const {
  return token.kind == TokenKind::print_end || token.kind == TokenKind::tag_end || token.is_name("recursive") ||
         (form_ == Form::loop_source && token.is_name("if"));
}

// ':' behind an operand: the end of a key of a dict, or of a bound of a slice. Item::jump notes that a key has ended.
Result<bool> ExpressionParser::end_key() {
  finish_element();
  Item& top = items_.back();
  const bool is_key = top.what == What::dict && top.jump == 0;
  if (!is_key && !(top.what == What::subscript && top.count < 2)) return false;
  tokens_.take();
  if (is_key) {
    top.jump = 1;
  } else {
    ++top.count;
    top.is_fresh = true;
  }
  top.begin = code_.here();
  wants_operand_ = true;
  return true;
}

// The lexer has matched the brackets. An empty dict, or one whose last element is `key: value,`, is fresh.
Result<> ExpressionParser::close_bracket() {
  const Item& top = items_.back();
  const int32_t n = top.count + (top.is_fresh ? 0 : 1);
  const bool is_tuple = top.count > 0 || top.is_fresh;
  if (top.what == What::dict && !top.is_fresh && top.jump == 0) return tokens_.unexpected("':'");
  if (top.what == What::list) code_.emit(Opcode::make_list, top.at, n);
  if (top.what == What::dict) code_.emit(Opcode::make_dict, top.at, n);
  if (top.what == What::group && is_tuple) code_.emit(Opcode::make_tuple, top.at, n);
  if (top.what == What::subscript) emit_subscript(top);
  if (holds_arguments(top)) emit_call(top);
  items_.pop_back();
  tokens_.take();
  wants_operand_ = false;
  return {};
}

void ExpressionParser::emit_subscript(const Item& item) {
  if (item.count == 0) {
    code_.emit(Opcode::item, item.at);
    return;
  }
  if (item.count == 1) code_.emit_push(item.at, Value::none());
  code_.emit(Opcode::slice, item.at);
}

// A call, a filter or a test with the arguments on the stack.
void ExpressionParser::emit_call(const Item& item) {
  if (item.what == What::call) {
    code_.emit(Opcode::call, item.at, code_.add_shape(item.shape));
    return;
  }
  if (item.opcode == Opcode::unknown) {
    code_.emit(Opcode::unknown, item.at, code_.text_constant(unknown_));
  } else {
    code_.emit(item.opcode, item.at, code_.add_shape(item.shape), item.n);
  }
  if (item.is_negated) code_.emit(Opcode::logical_not, item.at);
}

}  // namespace tessera::text::jinja
