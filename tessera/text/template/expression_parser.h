// Parses one expression and appends its code. Operators wait on a stack of the parser until a weaker one follows
// (operator precedence parsing), so nesting costs no recursion.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/text/template/code_builder.h"

namespace tessera::text::jinja {

class ExpressionParser {
 public:
  /// Forms of expressions in statements.
  enum class Form : uint8_t {
    single,
    tuple,        // a list without brackets is a tuple
    loop_source,  // as tuple, and `if` begins the condition of the loop
    filters,      // filters for a value that is already on the stack: name(arguments) | name ...
  };

  ExpressionParser(TokenStream& tokens, CodeBuilder& code) : tokens_(tokens), code_(code) {}

  /// An unknown filter or test fails when it is reached, not when it is parsed, if this is set or the expression has an
  /// inline if.
  void set_conditional(bool is_conditional) { is_conditional_ = is_conditional; }

  /// Parses up to the first token that cannot continue the expression. Errors: format; limit.
  Result<> parse(Form form);

 private:
  enum class What : uint8_t {
    unary,  // - + not
    binary,
    logical,  // and or
    comparison,
    test_operand,  // argument of a test without brackets: is divisibleby 3
    condition,     // behind `if`
    alternative,   // behind `else`
    whole,         // the expression itself
    group,
    list,
    dict,
    subscript,
    call,
    filter,
    test,
  };

  /// An operator that waits for its right operand, or an open bracket.
  struct Item {
    What what;
    int strength = 0;  // of operators; 0 for all else
    Opcode opcode = Opcode::jump;
    uint16_t n = 0;
    uint32_t at = 0;
    size_t begin = 0;             // brackets: code of the present element
    size_t jump = 0;              // a jump that waits for its target
    int32_t count = 0;            // brackets: finished elements
    bool is_fresh = true;         // brackets: the present element has no token yet
    bool is_negated = false;      // tests: is not
    std::vector<size_t> jumps{};  // comparisons: jumps of a chain
    CallShape shape{};
  };

  Item& push(What what, uint32_t at);
  void push_operator(What what, int strength, Opcode opcode, uint16_t n, uint32_t at);
  bool holds_arguments(const Item& item) const;
  void reduce(int strength);
  void emit_operator(const Item& item);
  void finish_condition();
  void finish_element();

  Result<> parse_operand();
  Result<bool> begin_element();
  Result<bool> begin_argument();
  Result<bool> begin_bound();
  Result<> parse_name(const Token& token);
  Result<bool> continue_operand();
  Result<bool> continue_with_symbol();
  Result<bool> continue_with_name();
  Result<> parse_member();
  Result<> parse_filter();
  Result<> parse_test(uint32_t at);
  Result<std::string> parse_dotted_name(std::string_view wanted);
  bool begin_inline_if(const Token& token);
  void begin_alternative();
  void add_comparison(Comparison comparison, uint32_t at);
  Result<bool> separate();
  Result<bool> end_key();
  Result<> close_bracket();
  void emit_call(const Item& item);
  void emit_subscript(const Item& item);
  void note_unknown(std::string_view what, std::string_view name, uint32_t at);
  bool ends_tuple(const Token& token) const;

  TokenStream& tokens_;
  CodeBuilder& code_;
  std::vector<Item> items_;
  Form form_ = Form::single;
  bool wants_operand_ = true;
  bool is_conditional_ = false;
  bool has_inline_if_ = false;
  std::string unknown_;  // message about the first unknown filter or test
  uint32_t unknown_at_ = 0;
};

}  // namespace tessera::text::jinja
