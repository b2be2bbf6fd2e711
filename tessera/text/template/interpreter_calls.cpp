// The instructions of calls and loops.
#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/calls.h"
#include "tessera/text/template/interpreter.h"
#include "tessera/text/template/operators.h"

namespace tessera::text::jinja {

Result<> Interpreter::call(const Instruction& instruction) {
  const CallShape& shape = program_.shapes[to_size(instruction.arg)];
  const size_t begin = stack_.size() - shape.arguments.size();
  TESSERA_ASSIGN(const Arguments arguments, collect_arguments(runtime_, shape, std::span(stack_).subspan(begin)));
  stack_.resize(begin);
  const Value subject = pop();
  if (instruction.opcode == Opcode::call) return call_value(subject, arguments);
  if (instruction.opcode == Opcode::test) {
    TESSERA_ASSIGN(const bool holds, call_test(runtime_, tests()[instruction.n], subject, arguments));
    push(Value::boolean(holds));
    return {};
  }
  TESSERA_ASSIGN(const Value result, call_filter(runtime_, filters()[instruction.n], subject, arguments));
  push(result);
  return {};
}

Result<> Interpreter::call_value(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::undefined:
      return undefined_error(callee);
    case Kind::macro:
      return call_macro(callee.as<Macro>(), arguments);
    case Kind::loop:
      return call_loop(callee.as<Loop>(), arguments);
    case Kind::method: {
      const Method& method = callee.as<Method>();
      TESSERA_ASSIGN(const Value result, call_filter(runtime_, *method.row, method.self, arguments));
      push(result);
      return {};
    }
    case Kind::function: {
      const auto& function = callee.as<const Function>();
      TESSERA_ASSIGN(const Bound bound, bind(function.parameters, arguments));
      TESSERA_ASSIGN(const Value result, function.call(runtime_, bound, arguments));
      push(result);
      return {};
    }
    case Kind::joiner: {
      Joiner& joiner = callee.as<Joiner>();
      push(joiner.is_used ? joiner.separator : Value::text(&kEmptyText));
      joiner.is_used = true;
      return {};
    }
    default:
      return fail(ErrorCode::invalid_argument, "cannot call {}", to_string(callee.kind()));
  }
}

Result<> Interpreter::enter(Frame frame) {
  if (frames_.size() == Runtime::kMaxCalls)
    return fail(ErrorCode::limit, "calls nested deeper than {}", Runtime::kMaxCalls);
  frames_.push_back(frame);
  outputs_.emplace_back();
  return {};
}

// Returns from a macro or loop(...): its output is the value of the call.
Result<> Interpreter::leave() {
  const Frame frame = frames_.back();
  frames_.pop_back();
  scope_ = frame.scope;
  at_ = frame.return_to;
  return end_capture();
}

Result<> Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const MacroCode& code = program_.macros[macro.number];
  TESSERA_TRY(enter({macro.number, at_, scope_, loops_.size()}));
  scope_ = macro.scope;
  TESSERA_TRY(push_scope());
  at_ = to_size(code.entry);
  return bind_parameters(code, arguments);
}

Result<> Interpreter::bind_parameters(const MacroCode& code, const Arguments& arguments) {
  TESSERA_ASSIGN(const MacroArguments bound, bind_macro(runtime_, program_, code, arguments));
  for (size_t i = 0; i < bound.values.size(); ++i)
    scope_->bindings.push_back({static_cast<int32_t>(code.parameters[i]), bound.values[i]});
  if (code.uses_caller) TESSERA_TRY(store(program_.caller, bound.caller));
  if (code.uses_kwargs) TESSERA_TRY(store(program_.kwargs, bound.kwargs));
  if (code.uses_varargs) TESSERA_TRY(store(program_.varargs, bound.varargs));
  return {};
}

Result<> Interpreter::default_argument(const Instruction& instruction) {
  const uint32_t variable = program_.macros[frames_.back().macro].parameters[instruction.n];
  const auto binding = std::ranges::find(scope_->bindings, static_cast<int32_t>(variable), &Scope::Binding::variable);
  if (!binding->value.is_missing()) jump(instruction);
  return {};
}

Result<> Interpreter::call_loop(Loop& loop, const Arguments& arguments) {
  if (!loop.is_recursive) return fail(ErrorCode::invalid_argument, "loop() in a loop that is not recursive");
  if (arguments.positional.size() != 1 || !arguments.keywords.empty())
    return fail(ErrorCode::invalid_argument, "loop() takes 1 argument");
  TESSERA_TRY(enter({kNoMacro, at_, scope_, loops_.size(), loop.depth0 + 1}));
  scope_ = loop.outer;
  push(arguments.positional[0]);
  at_ = loop.entry;
  return {};
}

// True before the start and after the end of a loop that loop(...) called.
bool Interpreter::runs_called_loop() const {
  return !frames_.empty() && frames_.back().macro == kNoMacro && frames_.back().n_loops == loops_.size();
}

Result<> Interpreter::select_next(const Instruction& instruction) {
  const List& list = stack_[stack_.size() - 2].as_list();
  size_t& next = selections_.back();
  if (next >= list.items.size()) {
    jump(instruction);
    return {};
  }
  scope_->bindings.clear();
  push(list.items[next++]);
  return {};
}

Result<> Interpreter::select_keep() {
  if (!is_true(pop())) return {};
  TESSERA_TRY(runtime_.spend_values(1));
  const List& list = stack_[stack_.size() - 2].as_list();
  top().as_list().items.push_back(list.items[selections_.back() - 1]);
  return {};
}

Result<> Interpreter::loop_begin(const Instruction& instruction) {
  Heap& heap = runtime_.heap();
  Loop* loop = heap.create<Loop>();
  loop->items = &pop().as_list();
  loop->outer = scope_;
  loop->is_recursive = instruction.n != 0;
  loop->entry = static_cast<uint32_t>(at_ - 1 - to_size(instruction.arg));
  if (runs_called_loop()) loop->depth0 = frames_.back().loop_depth;
  loops_.push_back({loop, loop->items->items.size(), scope_});
  return push_scope();
}

Result<> Interpreter::loop_next(const Instruction& instruction) {
  const ActiveLoop& active = loops_.back();
  Loop& loop = *active.loop;
  if (loop.n_started >= std::min(active.n_elements, loop.items->items.size())) {
    jump(instruction);
    return {};
  }
  scope_->bindings.clear();
  scope_->bindings.push_back({program_.loop, Value::of(&loop)});
  push(loop.items->items[loop.n_started++]);
  return {};
}

void Interpreter::loop_end(const Instruction& instruction) {
  const ActiveLoop active = loops_.back();
  loops_.pop_back();
  scope_ = active.outer;
  if (active.loop->n_started > 0) jump(instruction);
}

Result<> Interpreter::loop_return() { return runs_called_loop() ? leave() : Result<>(); }

}  // namespace tessera::text::jinja
