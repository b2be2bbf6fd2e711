#include "tessera/text/template/interpreter.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/error.h"
#include "tessera/text/template/members.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"

namespace tessera::text::jinja {

Value Interpreter::pop() {
  const Value value = stack_.back();
  stack_.pop_back();
  return value;
}

std::expected<Rendered, TemplateError> Interpreter::run(std::span<const Variable> variables) {
  for (size_t i = 0; i < globals_.size(); ++i) {
    const auto given = std::ranges::find(variables, program_.variables[i].bytes(), &Variable::name);
    if (given != variables.end()) globals_[i] = given->value;
  }
  const std::vector<Instruction>& code = program_.code;
  while (at_ < code.size()) {
    const Instruction& instruction = code[at_++];
    auto done = runtime_.spend(1);
    if (done) [[likely]]
      done = execute(instruction);
    if (done && outputs_.back().overflowed()) done = fail(ErrorCode::limit, "text above 8 MiB");
    if (!done) [[unlikely]]
      return std::unexpected(error_at(program_.source, instruction.at, done.error()));
  }
  return Rendered{std::move(outputs_.front()).take(), std::move(generated_)};
}

// Instructions on values. execute_flow has those that change scopes, loops and outputs.
Result<> Interpreter::execute(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::emit:
      outputs_.back().append(program_.constants[to_size(instruction.arg)].as_text());
      return {};
    case Opcode::print:
      return print();
    case Opcode::push:
      push(program_.constants[to_size(instruction.arg)]);
      return {};
    case Opcode::load: {
      TESSERA_ASSIGN(const Value value, load(instruction.arg));
      push(value);
      return {};
    }
    case Opcode::store:
      return store(instruction.arg, pop());
    case Opcode::store_member:
      return store_member(instruction);
    case Opcode::unpack:
      return unpack(to_size(instruction.arg));
    case Opcode::attribute:
      return attribute(instruction);
    case Opcode::item:
      return item();
    case Opcode::slice:
      return slice();
    case Opcode::make_list:
      return make_list(to_size(instruction.arg), false);
    case Opcode::make_tuple:
      return make_list(to_size(instruction.arg), true);
    case Opcode::make_dict:
      return make_dict(to_size(instruction.arg));
    case Opcode::logical_not:
      top() = Value::boolean(!is_true(top()));
      return {};
    case Opcode::negate:
    case Opcode::plus:
    case Opcode::arithmetic:
    case Opcode::concat:
    case Opcode::compare:
      return binary(instruction);
    case Opcode::compare_chain:
      return compare_chain(instruction);
    case Opcode::call:
    case Opcode::filter:
    case Opcode::test:
      return call(instruction);
    case Opcode::unknown:
      return fail(ErrorCode::format, "{}", program_.constants[to_size(instruction.arg)].bytes());
    default:
      return execute_flow(instruction);
  }
}

Result<> Interpreter::execute_flow(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::jump:
      jump(instruction);
      return {};
    case Opcode::jump_if_false:
      if (!is_true(pop())) jump(instruction);
      return {};
    case Opcode::jump_if_true:
      if (is_true(pop())) jump(instruction);
      return {};
    case Opcode::and_jump:
    case Opcode::or_jump:
      if (is_true(top()) == (instruction.opcode == Opcode::or_jump)) {
        jump(instruction);
      } else {
        stack_.pop_back();
      }
      return {};
    case Opcode::collect: {
      TESSERA_ASSIGN(List * list, elements(runtime_, top()));
      top() = Value::list(list);
      return {};
    }
    case Opcode::select_begin:
      selections_.push_back(0);
      push(Value::list(runtime_.heap().create_list()));
      return push_scope();
    case Opcode::select_next:
      return select_next(instruction);
    case Opcode::select_keep:
      return select_keep();
    case Opcode::select_end: {
      const Value kept = pop();
      top() = kept;
      selections_.pop_back();
      scope_ = scope_->outer;
      return {};
    }
    case Opcode::loop_begin:
      return loop_begin(instruction);
    case Opcode::loop_next:
      return loop_next(instruction);
    case Opcode::drop_elements:
      loops_.back().n_elements = 0;
      return {};
    case Opcode::loop_end:
      loop_end(instruction);
      return {};
    case Opcode::loop_return:
      return loop_return();
    case Opcode::push_scope:
      return push_scope();
    case Opcode::pop_scope:
      scope_ = scope_->outer;
      return {};
    case Opcode::begin_capture:
      outputs_.emplace_back();
      return {};
    case Opcode::end_capture:
      return end_capture();
    case Opcode::drop_capture:
      outputs_.pop_back();
      return {};
    case Opcode::macro:
      push(Value::of(runtime_.heap().create<Macro>(static_cast<uint32_t>(instruction.arg), scope_)));
      return {};
    case Opcode::default_argument:
      return default_argument(instruction);
    case Opcode::return_macro:
      return leave();
    case Opcode::begin_generation:
      generation_begins_.push_back(outputs_.back().size());
      return {};
    case Opcode::end_generation:
      end_generation();
      return {};
    default:
      return fail(ErrorCode::internal, "instruction {}", to_size(instruction.opcode));
  }
}

// --- variables ---

Result<Value> Interpreter::load(int32_t variable) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    TESSERA_TRY(runtime_.spend(scope->bindings.size() / 64));
    for (const Scope::Binding& binding : scope->bindings)
      if (binding.variable == variable && !binding.value.is_missing()) return binding.value;
  }
  const Value& value = globals_[to_size(variable)];
  return value.is_missing() ? Value::undefined(&program_.variables[to_size(variable)].as_text()) : value;
}

Result<> Interpreter::store(int32_t variable, const Value& value) {
  if (scope_ == nullptr) {
    globals_[to_size(variable)] = value;
    return {};
  }
  TESSERA_TRY(runtime_.spend(scope_->bindings.size() / 64));
  const auto known = std::ranges::find(scope_->bindings, variable, &Scope::Binding::variable);
  if (known != scope_->bindings.end()) {
    known->value = value;
  } else {
    scope_->bindings.push_back({variable, value});
  }
  return {};
}

Result<> Interpreter::store_member(const Instruction& instruction) {
  const Value value = pop();
  TESSERA_ASSIGN(const Value object, load(instruction.arg));
  if (!object.is(Kind::name_space))
    return fail(ErrorCode::invalid_argument, "cannot set a member of {}, want a namespace", to_string(object.kind()));
  TESSERA_TRY(runtime_.spend_values(1));
  object.as<Namespace>().members->set(program_.constants[instruction.n], value);
  return {};
}

Result<> Interpreter::push_scope() {
  scope_ = runtime_.heap().create<Scope>(runtime_.heap().memory(), scope_);
  return {};
}

// --- values ---

Result<> Interpreter::print() {
  const Value value = pop();
  const size_t before = outputs_.back().size();
  TESSERA_TRY(append_text(runtime_, value, outputs_.back()));
  return runtime_.spend_bytes(outputs_.back().size() - before);
}

Result<> Interpreter::unpack(size_t n) {
  if (n == 0) return {};
  if (top().is_undefined()) return undefined_error(top());
  TESSERA_ASSIGN(const List* list, elements(runtime_, pop()));
  if (list->items.size() != n)
    return fail(ErrorCode::invalid_argument, "cannot unpack {} elements into {} variables", list->items.size(), n);
  TESSERA_TRY(runtime_.spend(n));
  stack_.insert(stack_.end(), list->items.rbegin(), list->items.rend());
  return {};
}

Result<> Interpreter::attribute(const Instruction& instruction) {
  const Value& name = program_.constants[to_size(instruction.arg)];
  TESSERA_ASSIGN(const Value value, member(runtime_, top(), name, instruction.n != 0));
  top() = value;
  return {};
}

// object[key]: an element, or else a member.
Result<> Interpreter::item() {
  const Value key = pop();
  TESSERA_ASSIGN(Value value, jinja::item(runtime_, top(), key));
  const bool may_be_member = value.is_undefined() && key.is_text() && !key.bytes().starts_with("__");
  if (may_be_member) {
    TESSERA_ASSIGN(value, member(runtime_, top(), key, is_method_name(key.bytes())));
  }
  top() = value;
  return {};
}

Result<> Interpreter::slice() {
  const Value step = pop(), stop = pop(), start = pop();
  TESSERA_ASSIGN(const Value part, jinja::slice(runtime_, top(), start, stop, step));
  top() = part;
  return {};
}

Result<> Interpreter::make_list(size_t n, bool is_tuple) {
  TESSERA_ASSIGN(List * list, runtime_.create_list(n));
  list->items.assign(stack_.end() - static_cast<ptrdiff_t>(n), stack_.end());
  stack_.resize(stack_.size() - n);
  push(is_tuple ? Value::tuple(list) : Value::list(list));
  return {};
}

Result<> Interpreter::make_dict(size_t n) {
  TESSERA_ASSIGN(Dict * dict, runtime_.create_dict(n));
  const size_t begin = stack_.size() - 2 * n;
  for (size_t i = begin; i < stack_.size(); i += 2) {
    if (!is_hashable(stack_[i]))
      return fail(ErrorCode::invalid_argument, "{} cannot be a key", to_string(stack_[i].kind()));
    dict->set(stack_[i], stack_[i + 1]);
  }
  stack_.resize(begin);
  push(Value::dict(dict));
  return {};
}

Result<> Interpreter::binary(const Instruction& instruction) {
  if (instruction.opcode == Opcode::negate || instruction.opcode == Opcode::plus) {
    if (top().is_undefined()) return undefined_error(top());
    if (!top().is_number())
      return fail(ErrorCode::invalid_argument, "sign of {}, want a number", to_string(top().kind()));
    TESSERA_ASSIGN(const Value negative, negate(top()));
    if (instruction.opcode == Opcode::negate) top() = negative;
    return {};
  }
  const Value b = pop();
  if (instruction.opcode == Opcode::compare) {
    TESSERA_ASSIGN(const bool holds, compare(runtime_, static_cast<Comparison>(instruction.n), top(), b));
    top() = Value::boolean(holds);
  } else if (instruction.opcode == Opcode::concat) {
    TESSERA_ASSIGN(const Value joined, concat(runtime_, top(), b));
    top() = joined;
  } else {
    TESSERA_ASSIGN(const Value result, apply(runtime_, static_cast<Arithmetic>(instruction.n), top(), b));
    top() = result;
  }
  return {};
}

Result<> Interpreter::compare_chain(const Instruction& instruction) {
  const Value b = pop();
  TESSERA_ASSIGN(const bool holds, compare(runtime_, static_cast<Comparison>(instruction.n), top(), b));
  top() = holds ? b : Value::boolean(false);
  if (!holds) jump(instruction);
  return {};
}

// --- output ---

Result<> Interpreter::end_capture() {
  TESSERA_ASSIGN(const Value text, runtime_.text(outputs_.back()));
  outputs_.pop_back();
  push(text);
  return {};
}

// Only text that goes straight to the prompt has a place there.
void Interpreter::end_generation() {
  const ByteRange range{generation_begins_.back(), outputs_.back().size()};
  generation_begins_.pop_back();
  if (outputs_.size() == 1 && range.begin < range.end) generated_.push_back(range);
}

std::expected<Rendered, TemplateError> run_program(const Program& program, Heap& heap,
                                                   std::span<const Variable> variables, const std::tm& now) {
  return Interpreter(program, heap, now).run(variables);
}

}  // namespace tessera::text::jinja
