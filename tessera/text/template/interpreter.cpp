#include "tessera/text/template/interpreter.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/error.h"
#include "tessera/text/template/members.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"

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

namespace {

class Interpreter {
 public:
  Interpreter(const Program& program, Heap& heap, const std::tm& now)
      : program_(program), runtime_(heap, now), globals_(program.variables.size()), outputs_(1) {}

  std::expected<Rendered, TemplateError> run(std::span<const Variable> variables);

 private:
  /// A macro that runs, or a loop that was started by loop(...).
  struct Frame {
    uint32_t macro;  // kNoMacro: a loop
    size_t return_to;
    Scope* scope;    // of the caller
    size_t n_loops;  // active loops at the call
    int64_t loop_depth = 0;  // of the called loop
  };
  static constexpr uint32_t kNoMacro = UINT32_MAX;

  struct ActiveLoop {
    Loop* loop;
    size_t n_elements;
    Scope* outer;  // to return to
  };

  void set_variables(std::span<const Variable> variables);
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
  Result<Arguments> pop_arguments(const CallShape& shape);
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
  int32_t loop_variable_ = -1, caller_ = -1, varargs_ = -1, kwargs_ = -1;
};

Value Interpreter::pop() {
  const Value value = stack_.back();
  stack_.pop_back();
  return value;
}

void Interpreter::set_variables(std::span<const Variable> variables) {
  for (size_t i = 0; i < globals_.size(); ++i) {
    const std::string_view name = program_.variables[i].bytes();
    const auto number = static_cast<int32_t>(i);
    if (name == "loop") loop_variable_ = number;
    if (name == "caller") caller_ = number;
    if (name == "varargs") varargs_ = number;
    if (name == "kwargs") kwargs_ = number;
    const auto given = std::ranges::find(variables, name, &Variable::name);
    if (given != variables.end()) {
      globals_[i] = given->value;
    } else if (const Function* function = find_function(name)) {
      globals_[i] = Value::of(function);
    }
  }
}

std::expected<Rendered, TemplateError> Interpreter::run(std::span<const Variable> variables) {
  set_variables(variables);
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
    case Opcode::emit: outputs_.back().append(program_.constants[to_size(instruction.arg)].as_text()); return {};
    case Opcode::print: return print();
    case Opcode::push: push(program_.constants[to_size(instruction.arg)]); return {};
    case Opcode::push_undefined: push(Value::undefined()); return {};
    case Opcode::load: {
      TESSERA_ASSIGN(const Value value, load(instruction.arg));
      push(value);
      return {};
    }
    case Opcode::store: return store(instruction.arg, pop());
    case Opcode::store_member: return store_member(instruction);
    case Opcode::unpack: return unpack(to_size(instruction.arg));
    case Opcode::attribute: return attribute(instruction);
    case Opcode::item: return item();
    case Opcode::slice: return slice();
    case Opcode::make_list: return make_list(to_size(instruction.arg), false);
    case Opcode::make_tuple: return make_list(to_size(instruction.arg), true);
    case Opcode::make_dict: return make_dict(to_size(instruction.arg));
    case Opcode::logical_not: top() = Value::boolean(!is_true(top())); return {};
    case Opcode::negate:
    case Opcode::plus:
    case Opcode::arithmetic:
    case Opcode::concat:
    case Opcode::compare: return binary(instruction);
    case Opcode::compare_chain: return compare_chain(instruction);
    case Opcode::call:
    case Opcode::filter:
    case Opcode::test: return call(instruction);
    case Opcode::unknown:
      return fail(ErrorCode::format, "{}", program_.constants[to_size(instruction.arg)].bytes());
    default: return execute_flow(instruction);
  }
}

Result<> Interpreter::execute_flow(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::jump: jump(instruction); return {};
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
    case Opcode::select_next: return select_next(instruction);
    case Opcode::select_keep: return select_keep();
    case Opcode::select_end: {
      const Value kept = pop();
      top() = kept;
      selections_.pop_back();
      scope_ = scope_->outer;
      return {};
    }
    case Opcode::loop_begin: return loop_begin(instruction);
    case Opcode::loop_next: return loop_next(instruction);
    case Opcode::drop_elements: loops_.back().n_elements = 0; return {};
    case Opcode::loop_end: loop_end(instruction); return {};
    case Opcode::loop_return: return loop_return();
    case Opcode::push_scope: return push_scope();
    case Opcode::pop_scope: scope_ = scope_->outer; return {};
    case Opcode::begin_capture: outputs_.emplace_back(); return {};
    case Opcode::end_capture: return end_capture();
    case Opcode::drop_capture: outputs_.pop_back(); return {};
    case Opcode::macro:
      push(Value::of(runtime_.heap().create<Macro>(static_cast<uint32_t>(instruction.arg), scope_)));
      return {};
    case Opcode::default_argument: return default_argument(instruction);
    case Opcode::return_macro: return leave();
    case Opcode::begin_generation: generation_begins_.push_back(outputs_.back().size()); return {};
    case Opcode::end_generation: end_generation(); return {};
    default: return fail(ErrorCode::internal, "instruction {}", to_size(instruction.opcode));
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

// --- calls ---

Result<Arguments> Interpreter::pop_arguments(const CallShape& shape) {
  using Passing = CallShape::Passing;
  Arguments arguments;
  const size_t begin = stack_.size() - shape.arguments.size();
  for (size_t i = 0; i < shape.arguments.size(); ++i) {
    const Value value = stack_[begin + i];
    switch (shape.arguments[i].passing) {
      case Passing::positional: arguments.positional.push_back(value); break;
      case Passing::keyword: arguments.keywords.push_back({shape.arguments[i].keyword.bytes(), value}); break;
      case Passing::star: {
        TESSERA_ASSIGN(const List* list, elements(runtime_, value));
        TESSERA_TRY(runtime_.spend(list->items.size()));
        arguments.positional.insert(arguments.positional.end(), list->items.begin(), list->items.end());
        break;
      }
      case Passing::double_star:
        if (!value.is(Kind::dict))
          return fail(ErrorCode::invalid_argument, "argument behind '**' is {}, want dict", to_string(value.kind()));
        TESSERA_TRY(runtime_.spend(value.as_dict().entries.size()));
        for (const Dict::Entry& entry : value.as_dict().entries) {
          if (!entry.key.is_text()) return fail(ErrorCode::invalid_argument, "name of an argument is not a text");
          arguments.keywords.push_back({entry.key.bytes(), entry.value});
        }
    }
  }
  stack_.resize(begin);
  return arguments;
}

Result<> Interpreter::call(const Instruction& instruction) {
  TESSERA_ASSIGN(const Arguments arguments, pop_arguments(program_.shapes[to_size(instruction.arg)]));
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
    case Kind::undefined: return undefined_error(callee);
    case Kind::macro: return call_macro(callee.as<Macro>(), arguments);
    case Kind::loop: return call_loop(callee.as<Loop>(), arguments);
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
    default: return fail(ErrorCode::invalid_argument, "cannot call {}", to_string(callee.kind()));
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
  TESSERA_TRY(runtime_.spend(code.parameters.size() * (arguments.keywords.size() + 1) / 8));
  std::vector<Value> values(code.parameters.size());
  const size_t n_positional = std::min(values.size(), arguments.positional.size());
  std::copy_n(arguments.positional.begin(), n_positional, values.begin());
  if (arguments.positional.size() > n_positional && !code.uses_varargs)
    return fail(ErrorCode::invalid_argument, "macro '{}' takes {} arguments, got {}", code.name.bytes(), values.size(),
                arguments.positional.size());
  TESSERA_ASSIGN(Dict * rest, runtime_.create_dict(code.uses_kwargs ? arguments.keywords.size() : 0));
  Value caller;
  for (const Arguments::Keyword& keyword : arguments.keywords) {
    const auto parameter = std::ranges::find_if(code.parameters, [&](uint32_t variable) {
      return program_.variables[variable].bytes() == keyword.name;
    });
    if (parameter != code.parameters.end()) {
      Value& value = values[to_size(parameter - code.parameters.begin())];
      if (!value.is_missing())
        return fail(ErrorCode::invalid_argument, "second value for argument '{}'", keyword.name);
      value = keyword.value;
    } else if (keyword.name == "caller" && code.uses_caller) {
      caller = keyword.value;
    } else if (code.uses_kwargs) {
      TESSERA_ASSIGN(const Value name, runtime_.text(keyword.name));
      rest->set(name, keyword.value);
    } else {
      return fail(ErrorCode::invalid_argument, "macro '{}' has no parameter '{}'", code.name.bytes(), keyword.name);
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto variable = static_cast<int32_t>(code.parameters[i]);
    if (!values[i].is_missing() || code.has_default[i]) {
      scope_->bindings.push_back({variable, values[i]});
    } else {
      scope_->bindings.push_back({variable, Value::undefined(&program_.variables[code.parameters[i]].as_text())});
    }
  }
  if (code.uses_caller) TESSERA_TRY(store(caller_, caller.is_missing() ? Value::undefined() : caller));
  if (code.uses_kwargs) TESSERA_TRY(store(kwargs_, Value::dict(rest)));
  if (!code.uses_varargs) return {};
  TESSERA_ASSIGN(List * extra, runtime_.create_list(arguments.positional.size() - n_positional));
  extra->items.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(n_positional), arguments.positional.end());
  return store(varargs_, Value::tuple(extra));
}

Result<> Interpreter::default_argument(const Instruction& instruction) {
  const uint32_t variable = program_.macros[frames_.back().macro].parameters[instruction.n];
  const auto binding = std::ranges::find(scope_->bindings, static_cast<int32_t>(variable), &Scope::Binding::variable);
  if (!binding->value.is_missing()) jump(instruction);
  return {};
}

// --- loops ---

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
  if (loop_variable_ >= 0) scope_->bindings.push_back({loop_variable_, Value::of(&loop)});
  push(loop.items->items[loop.n_started++]);
  return {};
}

void Interpreter::loop_end(const Instruction& instruction) {
  const ActiveLoop active = loops_.back();
  loops_.pop_back();
  scope_ = active.outer;
  if (active.loop->n_started > 0) jump(instruction);
}

Result<> Interpreter::loop_return() {
  return runs_called_loop() ? leave() : Result<>();
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

}  // namespace

std::expected<Rendered, TemplateError> run_program(const Program& program, Heap& heap,
                                                   std::span<const Variable> variables, const std::tm& now) {
  return Interpreter(program, heap, now).run(variables);
}

}  // namespace tessera::text::jinja
