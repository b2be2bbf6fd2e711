#include "tessera/text/chat/capabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/chat/probe.h"
#include "tessera/text/chat/value_tools.h"

namespace tessera::text {
namespace {

using jinja::Heap;
using jinja::Value;
using probe::Probe;

constexpr std::array<std::string_view, 9> kReasoningMarks{"<think",
                                                          "</think",
                                                          "[THINK]",
                                                          "<|channel",
                                                          "<|START_THINKING|>",
                                                          "<seed:think>",
                                                          "<mm:think>",
                                                          "<|think|>",
                                                          "[BEGIN FINAL RESPONSE]"};

constexpr std::array<probe::CallForm, 4> kCallForms{{{ArgumentForm::object, CallContent::empty},
                                                     {ArgumentForm::text, CallContent::empty},
                                                     {ArgumentForm::object, CallContent::null},
                                                     {ArgumentForm::text, CallContent::null}}};

// A user message, the calls of the assistant and their results.
std::string render_calls(const Probe& probe, const probe::Calls& calls) {
  return probe.render([&](Heap& heap, jinja::List& messages) {
    probe::add_user(heap, messages);
    probe::add_calls(heap, messages, calls);
    messages.items.push_back(probe::result(heap, probe::kTool, probe::kFirstId));
    if (calls.is_parallel) messages.items.push_back(probe::result(heap, probe::kSecondTool, probe::kSecondId));
  });
}

bool shows_call(const std::string& prompt) {
  const std::string python = fmt::format("{{'{}': '{}'}}", probe::kKey, probe::kValue);
  const std::string nested = fmt::format("\\\"{}\\\"", probe::kKey);
  return prompt.contains(probe::kTool) && prompt.contains(probe::kValue) && !prompt.contains(python) &&
         !prompt.contains(nested);
}

// Returns a call in the template's own form, with NAME for the function and {} for its arguments. It is the difference
// between a message with a call and a message with a plain answer.
std::string call_example(const Probe& probe, const probe::CallForm& form) {
  const std::string with_call = probe.render([&](Heap& heap, jinja::List& messages) {
    probe::add_user(heap, messages);
    probe::add_calls(heap, messages, {.form = form});
  });
  const std::string with_answer = probe.render([](Heap& heap, jinja::List& messages) {
    probe::add_user(heap, messages);
    messages.items.push_back(probe::message(heap, "assistant", heap.text(probe::kAnswer)));
  });
  const auto [begin, other_begin] = std::ranges::mismatch(with_call, with_answer);
  const std::string_view tail(other_begin, with_answer.end());
  const size_t answer = tail.find(probe::kAnswer);
  const std::string_view after = answer == std::string_view::npos ? "" : tail.substr(answer + probe::kAnswer.size());
  std::string example(begin, with_call.end());
  if (example.ends_with(after)) example.resize(example.size() - after.size());
  const std::string arguments = fmt::format("{{\"{}\": \"{}\"}}", probe::kKey, probe::kValue);
  for (const auto& [from, to] :
       {std::pair<std::string_view, std::string_view>{arguments, "{}"}, {probe::kTool, "NAME"}}) {
    const size_t at = example.find(from);
    if (at != std::string::npos) example.replace(at, from.size(), to);
  }
  return example;
}

void probe_content(Probe probe, ChatCapabilities& caps) {
  const std::string text = probe.render(probe::add_user);
  caps.string_content = text.contains(probe::kUser);
  const std::string typed = probe.render([](Heap& heap, jinja::List& messages) {
    const Value part = make_dict(heap, {{"type", heap.text("text")}, {"text", heap.text(probe::kUser)}});
    messages.items.push_back(probe::message(heap, "user", make_list(heap, {part})));
  });
  caps.typed_content = typed.contains(probe::kUser) && (!caps.string_content || typed == text);
  const std::string system = probe.render([](Heap& heap, jinja::List& messages) {
    messages.items.push_back(probe::message(heap, "system", heap.text(probe::kSystem)));
    probe::add_user(heap, messages);
  });
  caps.system = system.contains(probe::kSystem);
  probe.has_tools = true;
  caps.tools = probe.render(probe::add_user).contains(probe::kTool);
}

void probe_calls(Probe probe, ChatCapabilities& caps) {
  for (const probe::CallForm& form : kCallForms) {
    const std::string prompt = render_calls(probe, {.form = form});
    if (!shows_call(prompt)) continue;
    caps.calls = true;
    caps.arguments = form.arguments;
    caps.call_content = form.content;
    caps.results = prompt.contains(probe::kResult);
    caps.call_example = call_example(probe, form);
    caps.parallel = render_calls(probe, {.form = form, .is_parallel = true}).contains(probe::kSecondTool);
    caps.reasoning_calls = render_calls(probe, {.form = form, .has_reasoning = true}).contains(probe::kReasoning);
    return;
  }
}

// A template that prints any role shows results too, so it must name the role as well.
void probe_results_alone(Probe probe, std::string_view source, ChatCapabilities& caps) {
  if (!source.contains("'tool'") && !source.contains("\"tool\"")) return;
  const std::string prompt = probe.render([](Heap& heap, jinja::List& messages) {
    probe::add_user(heap, messages);
    messages.items.push_back(probe::message(heap, "assistant", heap.text(probe::kAnswer)));
    messages.items.push_back(probe::result(heap, probe::kTool, probe::kFirstId));
  });
  caps.results_alone = prompt.contains(probe::kResult);
}

void probe_reasoning(Probe probe, ChatCapabilities& caps) {
  const auto add_answer = [](Heap& heap, jinja::List& messages) {
    probe::add_user(heap, messages);
    const Value answer = probe::message(heap, "assistant", heap.text(probe::kAnswer));
    set_member(heap, answer, "reasoning_content", heap.text(probe::kReasoning));
    messages.items.push_back(answer);
  };
  caps.reasoning_last = probe.render(add_answer).contains(probe::kReasoning);
  const std::string history = probe.render([&](Heap& heap, jinja::List& messages) {
    add_answer(heap, messages);
    probe::add_user(heap, messages);
  });
  caps.reasoning_history = history.contains(probe::kReasoning);
}

void probe_generation(Probe probe, ChatCapabilities& caps) {
  const std::string without = probe.render(probe::add_user);
  probe.add_generation_prompt = true;
  const std::string with = probe.render(probe::add_user);
  caps.generation_prompt = added_text(without, with);
  probe.enable_thinking = true;
  const std::string thinking = probe.render(probe::add_user);
  probe.enable_thinking = false;
  caps.thinking_switch = thinking != probe.render(probe::add_user);
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
