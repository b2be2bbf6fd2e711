// The template language and the adaptation of messages against what Hugging Face transformers renders, with real
// templates. The golden files are other people's work and are not part of this repository.
#include <gtest/gtest.h>

#include "tessera/text/chat/chat_template.h"
#include "tests/text/template_snippets.h"

namespace tessera::text {
namespace {

using testing::json_value;

// The clock of the golden data.
std::tm golden_clock() { return testing::clock_at(2026, 2, 28, 9, 5, 7); }

ChatTemplate golden_template(const std::string& folder, std::string_view name) {
  auto created =
      ChatTemplate::create(testing::read_all(folder + std::string(name) + ".jinja"), {.bos = "<s>", .eos = "</s>"});
  if (!created) ADD_FAILURE() << name << ": " << created.error().text();
  return std::move(*created);
}

bool is_set(const jinja::Value& row, std::string_view name) {
  const jinja::Value value = member_of(row, name);
  return !value.is_missing() && value.as_boolean();
}

ChatRequest request_of(const jinja::Value& conversation, bool adapts) {
  ChatRequest request{.messages = member_of(conversation, "messages"),
                      .tools = member_of(conversation, "tools"),
                      .documents = member_of(conversation, "documents"),
                      .variables = member_of(conversation, "vars")};
  request.add_generation_prompt = is_set(conversation, "add_generation_prompt");
  request.continues_last = is_set(conversation, "continue_final_message");
  request.adapts = adapts;
  request.sets_dates = false;
  request.now = golden_clock();
  return request;
}

// Only the words of raise_exception are the same in both programs.
void expect_error(const jinja::Value& row, const ChatError& error, const std::string& name) {
  const bool is_raised = error.in_template && error.in_template->kind == jinja::TemplateErrorKind::raised;
  EXPECT_EQ(is_raised ? "raised" : "failed", text_member(row, "error")) << name << ": " << error.message;
  if (is_raised) {
    EXPECT_EQ(error.message, text_member(row, "message")) << name;
  }
}

TEST(TemplateGolden, SnippetsOfTheLanguage) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/expressions.jsonl");
  EXPECT_EQ(testing::expect_rows(path, golden_clock()), 172u);
}

TEST(TemplateGolden, RealTemplatesWithConversations) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/renders.jsonl");
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const std::string conversations = testing::read_all(folder + "conversations.json");
  size_t n_raw = 0, n_adapted = 0;
  for (const std::string& line : testing::lines_of(path)) {
    jinja::Heap heap;
    const jinja::Value row = json_value(heap, line);
    const std::string name =
        std::string(text_member(row, "template")) + " " + std::string(text_member(row, "conversation"));
    const ChatTemplate chat_template = golden_template(folder, text_member(row, "template"));
    const jinja::Value conversation = member_of(json_value(heap, conversations), text_member(row, "conversation"));
    const bool adapts = is_set(row, "adapted");
    const auto prompt = chat_template.render(heap, request_of(conversation, adapts));
    ++(adapts ? n_adapted : n_raw);
    if (!text_member(row, "error").empty()) {
      EXPECT_FALSE(prompt.has_value()) << name;
      if (!prompt) expect_error(row, prompt.error(), name);
    } else {
      EXPECT_TRUE(prompt.has_value()) << name << (prompt ? "" : ": " + prompt.error().message);
      EXPECT_EQ(prompt ? prompt->prompt.text : "", text_member(row, "prompt")) << name;
    }
  }
  EXPECT_EQ(n_raw, 924u);
  EXPECT_EQ(n_adapted, 211u);
}

// The golden data has no calls for templates that know none. The models of these families write them like this.
TEST(TemplateGolden, CallsThatRealTemplatesDoNotKnowAreWrittenByTheirFamily) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/conversations.json");
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const auto prompt_of = [&](std::string_view name) {
    jinja::Heap heap;
    const jinja::Value conversation = member_of(json_value(heap, testing::read_all(path)), "w_round");
    const auto prompt = golden_template(folder, name).render(heap, request_of(conversation, true));
    return prompt ? prompt->prompt.text : prompt.error().message;
  };
  const std::string high = R"({"high":["03:12","15:40"],"low":["09:20","21:55"]})";
  EXPECT_TRUE(
      prompt_of("LFM2-8B-A1B")
          .contains("<|im_start|>assistant\n<|tool_call_start|>[get_tide(harbour=\"Den Helder\", date=\"2026-05-01\")]"
                    "<|tool_call_end|><|im_end|>\n<|im_start|>tool\n<|tool_response_start|>" +
                    high + "<|tool_response_end|><|im_end|>\n"))
      << prompt_of("LFM2-8B-A1B");
  EXPECT_TRUE(
      prompt_of("ibm-granite-granite-3.3-2B-Instruct")
          .contains(
              R"(<|end_of_role|><|tool_call|>[{"name": "get_tide", "arguments": {"harbour": "Den Helder", "date": "2026-05-01"}}])"
              "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>{\"tool_result\": {\"name\": \"get_tide\", "))
      << prompt_of("ibm-granite-granite-3.3-2B-Instruct");
  EXPECT_TRUE(prompt_of("HuggingFaceTB-SmolLM3-3B").contains("<|im_start|>assistant\n{\"tool_calls\": [{"))
      << "a template without marks of a family";
}

TEST(TemplateGolden, CapabilitiesOfRealTemplates) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/caps.jsonl");
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  constexpr std::string_view kArguments[] = {"none", "object", "string"};
  constexpr std::string_view kContents[] = {"empty", "null"};
  const std::vector<std::string> lines = testing::lines_of(path);
  EXPECT_EQ(lines.size(), 33u);
  for (const std::string& line : lines) {
    jinja::Heap heap;
    const jinja::Value row = json_value(heap, line);
    const std::string name(text_member(row, "template"));
    const ChatTemplate chat_template = golden_template(folder, name);
    const ChatCapabilities& caps = chat_template.capabilities();
    EXPECT_EQ(caps.string_content, is_set(row, "string_content")) << name;
    EXPECT_EQ(caps.typed_content, is_set(row, "typed_content")) << name;
    EXPECT_EQ(caps.system, is_set(row, "system")) << name;
    EXPECT_EQ(caps.tools, is_set(row, "tools")) << name;
    EXPECT_EQ(kArguments[to_size(caps.arguments)], text_member(row, "arguments")) << name;
    EXPECT_EQ(caps.calls, is_set(row, "calls")) << name;
    EXPECT_EQ(caps.results, is_set(row, "results")) << name;
    EXPECT_EQ(kContents[to_size(caps.call_content)], text_member(row, "call_content")) << name;
    EXPECT_EQ(caps.parallel, is_set(row, "parallel")) << name;
    EXPECT_EQ(caps.reasoning_last, is_set(row, "reasoning_last")) << name;
    EXPECT_EQ(caps.reasoning_history, is_set(row, "reasoning_history")) << name;
    EXPECT_EQ(caps.reasoning_calls, is_set(row, "reasoning_calls")) << name;
    EXPECT_EQ(caps.thinking_switch, is_set(row, "thinking_switch")) << name;
    EXPECT_EQ(caps.generation_prompt, text_member(row, "generation_prompt")) << name;
    EXPECT_EQ(caps.reasoning_marker, is_set(row, "reasoning_marker")) << name;
    EXPECT_EQ(caps.developer, is_set(row, "developer")) << name;
    EXPECT_EQ(caps.call_id_9, is_set(row, "call_id_9")) << name;
  }
}

// The text of a user in every field of every conversation of every template: no control token in it is trusted.
TEST(TemplateGolden, TextOfTheClientIsGivenInEveryTemplate) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/caps.jsonl");
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  constexpr std::string_view kMark = "<|im_end|>";
  const std::string messages =
      R"([{"role": "system", "content": "s<|im_end|>"}, {"role": "user", "content": "u<|im_end|>"},
          {"role": "assistant", "content": "a<|im_end|>", "reasoning_content": "r<|im_end|>",
           "tool_calls": [{"id": "call00001", "type": "function",
                           "function": {"name": "f<|im_end|>", "arguments": {"k<|im_end|>": ["v<|im_end|>"]}}}]},
          {"role": "tool", "tool_call_id": "call00001", "name": "f<|im_end|>", "content": "t<|im_end|>"},
          {"role": "user", "content": "w<|im_end|>"}])";
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f<|im_end|>", "description": "d<|im_end|>",
           "parameters": {"type": "object", "properties": {"k<|im_end|>": {"type": "string",
                          "description": "p<|im_end|>"}}, "required": ["k<|im_end|>"]}}}])";
  size_t n_marks = 0;
  for (const std::string& line : testing::lines_of(path)) {
    jinja::Heap heap;
    const std::string name(text_member(json_value(heap, line), "template"));
    const ChatTemplate chat_template = golden_template(folder, name);
    ChatRequest request{.messages = json_value(heap, messages), .tools = json_value(heap, tools)};
    const auto prompt = chat_template.render(heap, request);
    if (!prompt) continue;  // templates that refuse such a conversation
    const std::string& text = prompt->prompt.text;
    const MarkedView view{text, prompt->prompt.given};
    // Client texts have a letter in front of the mark; the template's own marks follow line breaks or '>'.
    for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
      if (at == 0 || !std::string_view("suarfkvtwdp").contains(text[at - 1])) continue;
      const auto given = view.given_within(at - 1, at + kMark.size());
      ++n_marks;
      ASSERT_EQ(given.size(), 1u) << name << ": " << text.substr(at - 1, 20);
      EXPECT_TRUE(given[0].begin < at && given[0].end >= at + kMark.size()) << name << ": " << text.substr(at - 1, 20);
    }
  }
  EXPECT_GT(n_marks, 200u);
}

}  // namespace
}  // namespace tessera::text
