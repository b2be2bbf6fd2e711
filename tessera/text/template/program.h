// A template as a flat list of instructions for a stack machine. Jumps are relative, so the parser can move pieces of
// code. The parser writes programs, the interpreter runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

// Comments show the stack before and after ("a b -> c"), and the meaning of arg and n.
enum class Opcode : uint8_t {
  emit,              // appends constant arg to the output
  print,             // v ->: appends the text of v to the output
  push,              // -> constant arg
  load,              // -> variable arg
  store,             // v ->: sets variable arg in the present scope
  store_member,      // v ->: sets member n of the namespace in variable arg
  unpack,            // sequence of arg elements -> elements, the first on top; arg 0: does nothing
  attribute,         // object -> member with the name in constant arg
  item,              // object key -> element
  slice,             // object start stop step -> part
  make_list,         // arg elements -> list
  make_tuple,        // arg elements -> tuple
  make_dict,         // arg pairs key, value -> dict
  negate,            // a -> -a
  plus,              // a -> +a
  logical_not,       // a -> not a
  arithmetic,        // a b -> a op b, n: Arithmetic
  concat,            // a b -> text of both
  compare,           // a b -> boolean, n: Comparison
  compare_chain,     // a b -> b, or false and a jump if the comparison fails: a < b < c
  jump,              //
  jump_if_false,     // a ->: jumps if a is false
  jump_if_true,      // a ->
  and_jump,          // a -> a and a jump if a is false, else a ->
  or_jump,           // a -> a and a jump if a is true, else a ->
  call,              // function arguments -> result, arg: CallShape
  filter,            // value arguments -> result, arg: CallShape, n: row of filters()
  test,              // value arguments -> boolean, arg: CallShape, n: row of tests()
  unknown,           // fails with the text of constant arg as its message
  collect,           // iterable -> list of its elements
  select_begin,      // list -> list, empty list: starts the condition of a for statement, in a scope of its own
  select_next,       // -> next element, or a jump at the end of the list
  select_keep,       // condition ->: keeps the element if the condition is true
  select_end,        // list, kept -> kept
  loop_begin,        // list ->: starts a loop; arg: distance to its collect, n: 1 if it is recursive
  loop_next,         // -> next element, or a jump at the end
  drop_elements,     // makes the present iteration the last one
  loop_end,          // ends the loop; jumps over `else` if an element was visited
  loop_return,       // returns from loop(...) to its call, if the loop was called
  push_scope,        //
  pop_scope,         //
  begin_capture,     // output goes to a text of its own
  end_capture,       // -> that text
  drop_capture,      // forgets that text
  macro,             // -> macro arg
  default_argument,  // jumps if parameter n of the running macro was passed
  return_macro,      // ends a macro: its output is the result of the call
  begin_generation,  //
  end_generation,    //
};

enum class Comparison : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

struct Instruction {
  Opcode opcode;
  uint16_t n = 0;
  int32_t arg = 0;  // of jumps: distance from this instruction
  uint32_t at = 0;  // byte of the source, for errors
};

/// How the arguments of a call lie on the stack, in the order of the source.
struct CallShape {
  enum class Passing : uint8_t { positional, keyword, star, double_star };
  struct Argument {
    Passing passing;
    Value keyword{};  // a text
  };
  std::vector<Argument> arguments;
};

struct MacroCode {
  Value name{};                        // a text
  std::vector<uint32_t> parameters{};  // variables
  std::vector<bool> has_default{};
  int32_t entry = 0;  // first instruction
  int32_t end = 0;    // behind the last one
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Program {
  std::string source;
  Heap heap;  // of the constants
  std::vector<Instruction> code;
  std::vector<Value> constants;
  std::vector<Value> variables;  // names, by number
  std::vector<Value> globals;    // values of variables that name functions; missing for the others
  // Variables that loops and macros set.
  int32_t loop = 0, caller = 0, varargs = 0, kwargs = 0;
  std::vector<CallShape> shapes;
  std::vector<MacroCode> macros;
};

/// A place in a source: line and column, in code points from 1.
struct SourcePlace {
  size_t line = 1;
  size_t column = 1;
};
SourcePlace place_of(std::string_view source, size_t at);

}  // namespace tessera::text::jinja
