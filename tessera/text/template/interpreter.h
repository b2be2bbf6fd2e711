// Runs a program. The interpreter has stacks of its own for values, calls, loops and captured output, so nothing in a
// template makes it recurse.
#pragma once

#include <vector>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/program.h"
#include "tessera/text/template/runtime.h"
#include "tessera/text/template/template.h"

namespace tessera::text::jinja {

/// Variables of a loop, a macro or a block. The outermost variables are in Interpreter::globals_.
struct Scope {
  struct Binding {
    int32_t variable;
    Value value;
  };
  Scope(std::pmr::memory_resource* memory, Scope* outer) : outer(outer), bindings(memory) {}

  Scope* outer;
  std::pmr::vector<Binding> bindings;
};

class Interpreter {
 public:
  Interpreter(const Program& program, Heap& heap, const std::tm& now)
      : program_(program), runtime_(heap, now), globals_(program.globals), outputs_(1) {}

  std::expected<Rendered, TemplateError> run(std::span<const Variable> variables);

 private:
  /// A macro that runs, or a loop that was started by loop(...).
  struct Frame {
    uint32_t macro;  // kNoMacro: a loop
    size_t return_to;
    Scope* scope;            // of the caller
    size_t n_loops;          // active loops at the call
    int64_t loop_depth = 0;  // of the called loop
  };
  static constexpr uint32_t kNoMacro = UINT32_MAX;

  struct ActiveLoop {
    Loop* loop;
    size_t n_elements;
    Scope* outer;  // to return to
  };

  Result<> execute(const Instruction& instruction);
  Result<> execute_flow(const Instruction& instruction);

  Value pop();
  Value& top() { return stack_.back(); }
  void push(const Value& value) { stack_.push_back(value); }
  void jump(const Instruction& instruction) { at_ += to_size(static_cast<int64_t>(instruction.arg) - 1); }

  Result<Value> load(int32_t variable);
  Result<> store(int32_t variable, const Value& value);
  Result<> store_member(const Instruction& instruction);
  Result<> push_scope();
  Result<> print();
  Result<> unpack(size_t n);
  Result<> attribute(const Instruction& instruction);
  Result<> item();
  Result<> slice();
  Result<> make_list(size_t n, bool is_tuple);
  Result<> make_dict(size_t n);
  Result<> binary(const Instruction& instruction);
  Result<> compare_chain(const Instruction& instruction);
  Result<> call(const Instruction& instruction);
  Result<> call_value(const Value& callee, const Arguments& arguments);
  Result<> call_macro(const Macro& macro, const Arguments& arguments);
  Result<> bind_parameters(const MacroCode& code, const Arguments& arguments);
  Result<> call_loop(Loop& loop, const Arguments& arguments);
  Result<> enter(Frame frame);
  Result<> leave();
  bool runs_called_loop() const;
  Result<> default_argument(const Instruction& instruction);
  Result<> select_next(const Instruction& instruction);
  Result<> select_keep();
  Result<> loop_begin(const Instruction& instruction);
  Result<> loop_next(const Instruction& instruction);
  void loop_end(const Instruction& instruction);
  Result<> loop_return();
  Result<> end_capture();
  void end_generation();

  const Program& program_;
  Runtime runtime_;
  size_t at_ = 0;  // next instruction
  std::vector<Value> globals_;
  Scope* scope_ = nullptr;  // null: the outermost
  std::vector<Value> stack_;
  std::vector<Frame> frames_;
  std::vector<ActiveLoop> loops_;
  std::vector<size_t> selections_;  // elements that the conditions of `for` have visited
  std::vector<MarkedTextBuilder> outputs_;
  std::vector<size_t> generation_begins_;
  std::vector<ByteRange> generated_;
};

std::expected<Rendered, TemplateError> run_program(const Program& program, Heap& heap,
                                                   std::span<const Variable> variables, const std::tm& now);

}  // namespace tessera::text::jinja
