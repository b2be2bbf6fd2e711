#include "tessera/text/chat/capabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/chat/value_tools.h"

namespace tessera::text {
namespace {

using jinja::Heap;
using jinja::Value;

constexpr std::array<std::string_view, 9> kReasoningMarks{"<think",
                                                          "</think",
                                                          "[THINK]",
                                                          "<|channel",
                                                          "<|START_THINKING|>",
                                                          "<seed:think>",
                                                          "<mm:think>",
                                                          "<|think|>",
                                                          "[BEGIN FINAL RESPONSE]"};

// Words that no template contains.
constexpr std::string_view kProbeTool = "qqtool", kProbeArgument = "qqkey", kProbeValue = "qqvalue";
constexpr std::string_view kUser = "qquser", kSystem = "qqsystem", kResult = "qqresult", kReasoning = "qqreasoning",
                           kSecondTool = "qqsecond", kAnswer = "qqanswer";
constexpr std::string_view kFirstId = "call00001", kSecondId = "call00002";

// One render with marked inputs. Each has values of its own, since a template may change lists.
class Probe {
 public:
  explicit Probe(const jinja::Template& chat_template, std::string_view bos, std::string_view eos)
      : template_(chat_template), bos_(bos), eos_(eos) {}

  bool enable_thinking = false;
  bool add_generation_prompt = false;
  bool has_tools = false;

  /// Returns the prompt, or "" if the template fails. add_messages(heap, list) adds the conversation.
  template <class AddMessages>
  std::string render(AddMessages add_messages) const {
    Heap heap;
    jinja::List* messages = heap.create_list();
    add_messages(heap, *messages);
    std::vector<jinja::Variable> variables{{"messages", Value::list(messages)},
                                           {"add_generation_prompt", Value::boolean(add_generation_prompt)},
                                           {"enable_thinking", Value::boolean(enable_thinking)},
                                           {"bos_token", heap.text(bos_)},
                                           {"eos_token", heap.text(eos_)}};
    if (has_tools) variables.push_back({"tools", tools(heap)});
    const auto rendered = template_.render(heap, variables, clock());
    return rendered ? rendered->prompt.text : "";
  }

 private:
  static std::tm clock() {
    std::tm now{};
    now.tm_year = 126;
    now.tm_mday = 1;
    return now;
  }
  static Value tools(Heap& heap) {
    const Value argument = make_dict(heap, {{"type", heap.text("string")}, {"description", heap.text("an argument")}});
    const Value parameters = make_dict(heap, {{"type", heap.text("object")},
                                              {"properties", make_dict(heap, {{kProbeArgument, argument}})},
                                              {"required", make_list(heap, {heap.text(kProbeArgument)})}});
    const Value function = make_dict(
        heap, {{"name", heap.text(kProbeTool)}, {"description", heap.text("a tool")}, {"parameters", parameters}});
    return make_list(heap, {make_dict(heap, {{"type", heap.text("function")}, {"function", function}})});
  }

  const jinja::Template& template_;
  std::string_view bos_, eos_;
};

Value message(Heap& heap, std::string_view role, const Value& content) {
  return make_dict(heap, {{"role", heap.text(role)}, {"content", content}});
}

void add_user(Heap& heap, jinja::List& messages) { messages.items.push_back(message(heap, "user", heap.text(kUser))); }

Value call(Heap& heap, std::string_view name, ArgumentForm form, std::string_view id) {
  const Value object = make_dict(heap, {{kProbeArgument, heap.text(kProbeValue)}});
  const Value text = heap.text(fmt::format("{{\"{}\": \"{}\"}}", kProbeArgument, kProbeValue));
  const Value function =
      make_dict(heap, {{"name", heap.text(name)}, {"arguments", form == ArgumentForm::text ? text : object}});
  return make_dict(heap, {{"id", heap.text(id)}, {"type", heap.text("function")}, {"function", function}});
}

Value result(Heap& heap, std::string_view name, std::string_view id) {
  const Value result = message(heap, "tool", heap.text(kResult));
  set_member(heap, result, "tool_call_id", heap.text(id));
  set_member(heap, result, "name", heap.text(name));
  return result;
}

struct CallForm {
  ArgumentForm arguments;
  CallContent content;
};
constexpr std::array<CallForm, 4> kCallForms{{{ArgumentForm::object, CallContent::empty},
                                              {ArgumentForm::text, CallContent::empty},
                                              {ArgumentForm::object, CallContent::null},
                                              {ArgumentForm::text, CallContent::null}}};

// A user message, a call (or two) of the assistant and the result.
void add_call(Heap& heap, jinja::List& messages, const CallForm& form, bool is_parallel, bool has_reasoning) {
  add_user(heap, messages);
  const Value content = form.content == CallContent::null ? Value::none() : heap.text("");
  const Value first = call(heap, kProbeTool, form.arguments, kFirstId);
  const Value second = call(heap, kSecondTool, form.arguments, kSecondId);
  const Value calls = is_parallel ? make_list(heap, {first, second}) : make_list(heap, {first});
  const Value answer = message(heap, "assistant", content);
  set_member(heap, answer, "tool_calls", calls);
  if (has_reasoning) set_member(heap, answer, "reasoning_content", heap.text(kReasoning));
  messages.items.push_back(answer);
  messages.items.push_back(result(heap, kProbeTool, kFirstId));
  if (is_parallel) messages.items.push_back(result(heap, kSecondTool, kSecondId));
}

bool shows_call(const std::string& prompt) {
  const std::string python = fmt::format("{{'{}': '{}'}}", kProbeArgument, kProbeValue);
  const std::string nested = fmt::format("\\\"{}\\\"", kProbeArgument);
  return prompt.contains(kProbeTool) && prompt.contains(kProbeValue) && !prompt.contains(python) &&
         !prompt.contains(nested);
}

// Returns a call in the template's own form, with NAME for the function and {} for its arguments. It is the difference
// between a message with a call and a message with a plain answer.
std::string call_example(const Probe& probe, const CallForm& form) {
  const std::string with_call = probe.render([&](Heap& heap, jinja::List& messages) {
    add_call(heap, messages, form, false, false);
    messages.items.pop_back();  // the result
  });
  const std::string with_answer = probe.render([](Heap& heap, jinja::List& messages) {
    add_user(heap, messages);
    messages.items.push_back(message(heap, "assistant", heap.text(kAnswer)));
  });
  const auto [begin, other_begin] = std::ranges::mismatch(with_call, with_answer);
  const std::string_view tail(other_begin, with_answer.end());
  const size_t answer = tail.find(kAnswer);
  const std::string_view after = answer == std::string_view::npos ? "" : tail.substr(answer + kAnswer.size());
  std::string example(begin, with_call.end());
  if (example.ends_with(after)) example.resize(example.size() - after.size());
  const std::string arguments = fmt::format("{{\"{}\": \"{}\"}}", kProbeArgument, kProbeValue);
  for (const auto& [from, to] :
       {std::pair<std::string_view, std::string_view>{arguments, "{}"}, {kProbeTool, "NAME"}}) {
    const size_t at = example.find(from);
    if (at != std::string::npos) example.replace(at, from.size(), to);
  }
  return example;
}

void probe_content(Probe probe, ChatCapabilities& caps) {
  const std::string text = probe.render(add_user);
  caps.string_content = text.contains(kUser);
  const std::string typed = probe.render([](Heap& heap, jinja::List& messages) {
    const Value part = make_dict(heap, {{"type", heap.text("text")}, {"text", heap.text(kUser)}});
    messages.items.push_back(message(heap, "user", make_list(heap, {part})));
  });
  caps.typed_content = typed.contains(kUser) && (!caps.string_content || typed == text);
  const std::string system = probe.render([](Heap& heap, jinja::List& messages) {
    messages.items.push_back(message(heap, "system", heap.text(kSystem)));
    add_user(heap, messages);
  });
  caps.system = system.contains(kSystem);
  probe.has_tools = true;
  caps.tools = probe.render(add_user).contains(kProbeTool);
}

void probe_calls(Probe probe, ChatCapabilities& caps) {
  const auto render = [&](const CallForm& form, bool is_parallel, bool has_reasoning) {
    return probe.render(
        [&](Heap& heap, jinja::List& messages) { add_call(heap, messages, form, is_parallel, has_reasoning); });
  };
  for (const CallForm& form : kCallForms) {
    const std::string prompt = render(form, false, false);
    if (!shows_call(prompt)) continue;
    caps.calls = true;
    caps.arguments = form.arguments;
    caps.call_content = form.content;
    caps.results = prompt.contains(kResult);
    caps.call_example = call_example(probe, form);
    caps.parallel = render(form, true, false).contains(kSecondTool);
    caps.reasoning_calls = render(form, false, true).contains(kReasoning);
    return;
  }
}

// A template that prints any role shows results too, so it must name the role as well.
void probe_results_alone(Probe probe, std::string_view source, ChatCapabilities& caps) {
  if (!source.contains("'tool'") && !source.contains("\"tool\"")) return;
  const std::string prompt = probe.render([](Heap& heap, jinja::List& messages) {
    add_user(heap, messages);
    messages.items.push_back(message(heap, "assistant", heap.text(kAnswer)));
    messages.items.push_back(result(heap, kProbeTool, kFirstId));
  });
  caps.results_alone = prompt.contains(kResult);
}

void probe_reasoning(Probe probe, ChatCapabilities& caps) {
  const auto add_answer = [](Heap& heap, jinja::List& messages) {
    add_user(heap, messages);
    const Value answer = message(heap, "assistant", heap.text(kAnswer));
    set_member(heap, answer, "reasoning_content", heap.text(kReasoning));
    messages.items.push_back(answer);
  };
  caps.reasoning_last = probe.render(add_answer).contains(kReasoning);
  const std::string history = probe.render([&](Heap& heap, jinja::List& messages) {
    add_answer(heap, messages);
    add_user(heap, messages);
  });
  caps.reasoning_history = history.contains(kReasoning);
}

void probe_generation(Probe probe, ChatCapabilities& caps) {
  const std::string without = probe.render(add_user);
  probe.add_generation_prompt = true;
  const std::string with = probe.render(add_user);
  caps.generation_prompt = added_text(without, with);
  probe.enable_thinking = true;
  const std::string thinking = probe.render(add_user);
  probe.enable_thinking = false;
  caps.thinking_switch = thinking != probe.render(add_user);
}

}  // namespace

ChatCapabilities probe_capabilities(const jinja::Template& chat_template, std::string_view bos, std::string_view eos) {
  ChatCapabilities caps;
  const std::string_view source = chat_template.source();
  caps.reasoning_marker =
      std::ranges::any_of(kReasoningMarks, [&](std::string_view mark) { return source.contains(mark); });
  caps.developer = source.contains("'developer'") || source.contains("\"developer\"");
  caps.call_id_9 = source.contains("length != 9");
  Probe probe(chat_template, bos, eos);
  probe.enable_thinking = caps.reasoning_marker;
  probe_content(probe, caps);
  probe_calls(probe, caps);
  if (!caps.calls) probe_results_alone(probe, source, caps);
  probe_reasoning(probe, caps);
  probe_generation(probe, caps);
  return caps;
}

}  // namespace tessera::text
