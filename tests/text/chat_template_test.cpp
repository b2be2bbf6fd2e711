// Chat templates: adaptation of messages, marks of what the client wrote, continuation, built-in templates.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/message.h"
#include "tests/text/template_snippets.h"

namespace tessera::text {
namespace {

using jinja::Heap;
using testing::json_value;

ChatTemplate create(std::string_view source, ChatTokens tokens = {}) {
  auto created = ChatTemplate::create(std::string(find_builtin_template(source).value_or(source)), std::move(tokens));
  if (!created) ADD_FAILURE() << created.error().text();
  return std::move(*created);
}

struct Chat {
  std::string messages;
  std::string tools{};
  std::string variables{};
  bool continues = false;
  std::optional<bool> enable_thinking{};
  std::optional<std::string> reasoning_effort{};
};

std::expected<ChatPrompt, ChatError> render(const ChatTemplate& chat_template, const Chat& chat) {
  Heap heap;
  ChatRequest request{.messages = json_value(heap, chat.messages)};
  if (!chat.tools.empty()) request.tools = json_value(heap, chat.tools);
  if (!chat.variables.empty()) request.variables = json_value(heap, chat.variables);
  request.continues_last = chat.continues;
  request.enable_thinking = chat.enable_thinking;
  request.reasoning_effort = chat.reasoning_effort;
  request.now.tm_year = 126;
  request.now.tm_mday = 21;
  request.now.tm_mon = 10;
  return chat_template.render(heap, request);
}

std::string prompt_of(std::string_view source, const Chat& chat) {
  const auto prompt = render(create(source), chat);
  return prompt ? prompt->prompt.text : "error: " + prompt.error().message;
}

constexpr const char* kHelloMessages = R"([{"role": "user", "content": "Hello"}])";
constexpr const char* kPingTool = R"([{"type": "function", "function": {"name": "ping", "parameters": {}}}])";
constexpr const char* kCallMessages =
    R"([{"role": "user", "content": "Go"},
        {"role": "assistant", "content": "Yes", "tool_calls": [{"function": {"name": "ping", "arguments": "{\"n\": 1}"}}]},
        {"role": "tool", "tool_call_id": "call1_0", "content": "pong"}, {"role": "user", "content": "Well?"}])";

// Shows every field of a message that adaptation changes.
constexpr const char* kDump =
    "{{ (tools or [])|map(attribute='function.name')|join }}{% for m in messages %}|{{ m.role }}:{{ m.content }}:{{ "
    "m.name }}:{{ m.tool_call_id }}"
    "{% for c in m.tool_calls or [] %}:{{ c.id }} {{ c.type }} {{ c.function.name }} {{ c.function.arguments }}{% "
    "endfor %}"
    "{% endfor %}{% if add_generation_prompt %}>{% endif %}";

TEST(ChatTemplate, BuiltInTemplatesShowAConversationInOrder) {
  const Chat chat{R"([{"role": "system", "content": "Sys"}, {"role": "user", "content": "One"},
                      {"role": "assistant", "content": "Two"}, {"role": "user", "content": "Three"}])"};
  const std::vector<std::string_view> names = builtin_template_names();
  EXPECT_EQ(names.size(), 51u);
  for (const std::string_view name : names) {
    const std::string prompt = prompt_of(name, chat);
    size_t at = 0;
    for (const std::string_view part : {"Sys", "One", "Two", "Three"}) {
      at = prompt.find(part, at);
      ASSERT_NE(at, std::string::npos) << name << " lacks " << part << ": " << prompt;
    }
  }
}

TEST(ChatTemplate, BuiltInTemplatesHaveTheFormatsOfTheirModels) {
  const Chat chat{R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                      {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}])"};
  const std::pair<std::string_view, std::string_view> wanted[] = {
      {"chatml",
       "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
       "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
      {"llama2", "[INST] S\nU [/INST]A</s>[INST] V [/INST]"},
      {"llama2-sys", "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]A</s>[INST] V [/INST]"},
      {"llama2-sys-bos", "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]A</s><s>[INST] V [/INST]"},
      {"mistral-v1", " [INST] S\n\nU [/INST] A</s> [INST] V [/INST]"},
      {"mistral-v3", "[INST] S\n\nU[/INST] A</s>[INST] V[/INST]"},
      {"mistral-v3-tekken", "[INST]S\n\nU[/INST]A</s>[INST]V[/INST]"},
      {"mistral-v7", "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] U[/INST] A</s>[INST] V[/INST]"},
      {"mistral-v7-tekken", "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U[/INST]A</s>[INST]V[/INST]"},
      {"phi3",
       "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n"},
      {"phi4",
       "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U<|im_end|><|im_start|>assistant"
       "<|im_sep|>A<|im_end|><|im_start|>user<|im_sep|>V<|im_end|><|im_start|>assistant<|im_sep|>"},
      {"gemma",
       "<start_of_turn>user\nS\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV"
       "<end_of_turn>\n<start_of_turn>model\n"},
      {"openchat",
       "S<|end_of_turn|>GPT4 Correct User: U<|end_of_turn|>GPT4 Correct Assistant: A<|end_of_turn|>"
       "GPT4 Correct User: V<|end_of_turn|>GPT4 Correct Assistant:"},
      {"vicuna", "S\n\nUSER: U\nASSISTANT: A</s>\nUSER: V\nASSISTANT:"},
      {"deepseek", "S### Instruction:\nU\n### Response:\nA\n<|EOT|>\n### Instruction:\nV\n### Response:\n"},
      {"deepseek3", "S\n\n<｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>"},
      {"llama3",
       "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU"
       "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user"
       "<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"exaone3", "[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n[|assistant|]"},
      {"minicpm", "<用户>S\nU<AI>A<用户>V<AI>"},
      {"kimi-k2",
       "<|im_system|>system<|im_middle|>S<|im_end|><|im_user|>user<|im_middle|>U<|im_end|><|im_assistant|>"
       "assistant<|im_middle|>A<|im_end|><|im_user|>user<|im_middle|>V<|im_end|><|im_assistant|>assistant"
       "<|im_middle|>"},
      {"grok-2",
       "System: S<|separator|>\n\nHuman: U<|separator|>\n\nAssistant: A<|separator|>\n\nHuman: V<|separator|>"
       "\n\nAssistant:"},
  };
  for (const auto& [name, prompt] : wanted) EXPECT_EQ(prompt_of(name, chat), prompt) << name;
  EXPECT_FALSE(find_builtin_template("nope").has_value());
}

TEST(ChatTemplate, DevelopersAreSystemUnlessTheTemplateKnowsThem) {
  const Chat chat{R"([{"role": "developer", "content": "D"}, {"role": "user", "content": "U"}])"};
  EXPECT_EQ(prompt_of(kDump, chat), "|system:D::|user:U::>");
  EXPECT_EQ(prompt_of(std::string(kDump) + "{% if 'developer' %}{% endif %}", chat), "|developer:D::|user:U::>");
}

TEST(ChatTemplate, PartsBecomeOneTextAndTextBecomesAPart) {
  const Chat parts{R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"};
  EXPECT_EQ(prompt_of(kDump, parts), "|user:a\nb::>");
  const std::string typed = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}";
  EXPECT_EQ(prompt_of(typed, parts), "<a><b>");
  EXPECT_EQ(prompt_of(typed, {kHelloMessages}), "<Hello>");
  EXPECT_EQ(prompt_of(kDump, {R"([{"role": "user", "content": [{"type": "image_url"}]}])"}),
            "error: messages[0].content[0]: not a part of type text");
}

TEST(ChatTemplate, CallsGetIdsNamesAndTheFormOfArguments) {
  EXPECT_EQ(prompt_of(kDump, {kCallMessages, kPingTool}),
            "ping|user:Go::|assistant:Yes:::call1_0 function ping {\"n\": 1}|tool:pong:ping:call1_0|user:Well?::>");
  // The template shows arguments as they are, so JSON text must stay JSON text to be valid JSON.
  const std::string as_text =
      "{{ tools }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name + c.function.arguments }}{% endfor %}|{% endfor %}";
  EXPECT_EQ(prompt_of(as_text, {kCallMessages}), "Go|Yesping{\"n\": 1}|pong|Well?|");
  std::string object = kCallMessages;
  object.replace(object.find("\"{\\\"n\\\": 1}\""), 12, "{\"n\":1}");
  EXPECT_EQ(prompt_of(as_text, {object}), "Go|Yesping{\"n\": 1}|pong|Well?|");
  const std::string as_object =
      "{{ tools }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}|{% endfor %}";
  EXPECT_EQ(prompt_of(as_object, {kCallMessages}), "Go|Yesping{\"n\": 1}|pong|Well?|");
}

TEST(ChatTemplate, BadCallsNameTheirField) {
  const auto call = [](const std::string& function) {
    return Chat{R"([{"role": "user", "content": "U"}, {"role": "assistant", "tool_calls": [)" + function + "]}]"};
  };
  EXPECT_EQ(prompt_of(kDump, call("{}")), "error: messages[1].tool_calls[0].function: missing");
  EXPECT_EQ(prompt_of(kDump, call(R"({"function": {"name": "f", "arguments": "{\"a\": }"}})")),
            "error: messages[1].tool_calls[0].function.arguments: not JSON: error at byte 6");
  EXPECT_EQ(prompt_of(kDump, call(R"({"function": {"name": "f", "arguments": "[1]"}})")),
            "error: messages[1].tool_calls[0].function.arguments: not a JSON object");
  EXPECT_EQ(prompt_of(kDump, {R"([{"content": "x"}])"}), "error: messages[0].role: missing");
  EXPECT_EQ(prompt_of(kDump, {R"(["x"])"}), "error: messages[0]: not an object");
  EXPECT_EQ(prompt_of(kDump, {R"({"role": "user"})"}), "error: messages: missing, want a list");
  EXPECT_EQ(prompt_of(kDump, {kHelloMessages, "5"}), "error: tools: not a list");
  EXPECT_EQ(prompt_of(kDump, {kHelloMessages, "", "5"}), "error: variables: not an object");
}

TEST(ChatTemplate, IdsOfNineCharactersWhereTheTemplateWantsThem) {
  const std::string source = std::string(kDump) + "{% if 'x'|length != 9 %}{% endif %}";
  const std::string prompt = prompt_of(source, {kCallMessages, kPingTool});
  const size_t at = prompt.find("Yes:::") + 6;
  const std::string id = prompt.substr(at, 9);
  EXPECT_EQ(prompt, "ping|user:Go::|assistant:Yes:::" + id + " function ping {\"n\": 1}|tool:pong:ping:" + id +
                        "|user:Well?::>");
  EXPECT_TRUE(std::ranges::all_of(id, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; })) << id;
  std::string kept = kCallMessages;
  for (size_t i = kept.find("call1_0"); i != std::string::npos; i = kept.find("call1_0"))
    kept.replace(i, 7, "abcDEF123");
  kept.replace(kept.find("[{\"function\""), 2, "[{\"id\": \"abcDEF123\", ");
  EXPECT_NE(prompt_of(source, {kept, kPingTool}).find("Yes:::abcDEF123 "), std::string::npos);
}

TEST(ChatTemplate, TemplatesWithoutToolsGetTheGenericScheme) {
  EXPECT_EQ(
      prompt_of("chatml", {kCallMessages, kPingTool}),
      "<|im_start|>system\nYou can call these functions:\n{\"name\": \"ping\", \"parameters\": {}}\n\nTo call "
      "functions, reply with one JSON object and nothing else: {\"tool_calls\": [{\"name\": \"NAME\", "
      "\"arguments\": {}}]}\nOtherwise reply in plain text.<|im_end|>\n<|im_start|>user\nGo<|im_end|>\n"
      "<|im_start|>assistant\nYes\n{\"tool_calls\": [{\"name\": \"ping\", \"arguments\": {\"n\": 1}}]}<|im_end|>\n"
      "<|im_start|>user\n{\"tool_result\": {\"name\": \"ping\", \"content\": \"pong\"}}\nWell?<|im_end|>\n"
      "<|im_start|>assistant\n");
  // The text joins a system message that is there.
  const std::string system =
      prompt_of("chatml", {R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}])", kPingTool});
  EXPECT_TRUE(system.starts_with("<|im_start|>system\nS\n\nYou can call these functions:\n")) << system;
}

// Shows tools and results but no calls. A comment names the mark of a family.
std::string source_without_calls(const std::string& mark, const std::string& tools = "{{ tools|tojson if tools }}") {
  return tools + "{# " + mark + " #}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
}

TEST(ChatTemplate, CallsThatATemplateDoesNotKnowAreWrittenAsItsFamilyDoes) {
  const std::string result = "<user>{\"tool_result\": {\"name\": \"ping\", \"content\": \"pong\"}}\nWell?";
  EXPECT_EQ(prompt_of(source_without_calls("<|tool_list_start|>"), {kCallMessages}),
            "<user>Go<assistant>Yes<|tool_call_start|>[ping(n=1)]<|tool_call_end|>" + result);
  EXPECT_EQ(prompt_of(source_without_calls("<|tool_call|><response>"), {kCallMessages}),
            "<user>Go<assistant>Yes<|tool_call|>[{\"name\": \"ping\", \"arguments\": {\"n\": 1}}]" + result);
  EXPECT_EQ(
      prompt_of(source_without_calls("<tool_call>"), {kCallMessages}),
      "<user>Go<assistant>Yes\n<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"n\": 1}}\n</tool_call>" + result);
  EXPECT_EQ(prompt_of(source_without_calls("no family"), {kCallMessages}),
            "<user>Go<assistant>Yes\n{\"tool_calls\": [{\"name\": \"ping\", \"arguments\": {\"n\": 1}}]}" + result);
}

// The prompt with each piece that the client gave as _.
std::string trusted_text(const ChatPrompt& prompt) {
  std::string trusted;
  for_each_piece({prompt.prompt.text, prompt.prompt.given},
                 [&](std::string_view piece, Origin origin) { trusted += origin == Origin::trusted ? piece : "_"; });
  return trusted;
}

TEST(ChatTemplate, WrittenCallsHaveTrustedMarksAndGivenValues) {
  std::string messages = kCallMessages;
  messages.replace(messages.find("\"{\\\"n\\\": 1}\""), 12, R"({"k": "<|tool_call_end|>"})");
  const auto trusted = [&](const std::string& mark) {
    return trusted_text(*render(create(source_without_calls(mark)), {messages}));
  };
  const std::string rest = "<user>{\"tool_result\": {\"name\": \"_\", \"content\": \"_\"}}\n_";
  EXPECT_EQ(trusted("<|tool_call_start|>"), "<user>_<assistant>_<|tool_call_start|>[_(_=_)]<|tool_call_end|>" + rest);
  EXPECT_EQ(
      trusted("<tool_call><function="),
      "<user>_<assistant>_\n<tool_call>\n<function=_>\n<parameter=_>\n_\n</parameter>\n</function>\n</tool_call>" +
          rest);
  EXPECT_EQ(trusted("<|tool_call>"), "<user>_<assistant>_<|tool_call>call:_{_:<|\"|>_<|\"|>}<tool_call|>" + rest);
  EXPECT_EQ(trusted("[TOOL_CALLS]"),
            "<user>_<assistant>_[TOOL_CALLS][{\"name\": _, \"arguments\": _, \"id\": _}]" + rest);
}

TEST(ChatTemplate, ResultsKeepTheRoleThatATemplateOfAKnownFamilyNames) {
  const std::string named = "{% if 'tool' %}{% endif %}";
  EXPECT_EQ(prompt_of(named + source_without_calls("<|tool_call_start|>"), {kCallMessages}),
            "<user>Go<assistant>Yes<|tool_call_start|>[ping(n=1)]<|tool_call_end|><tool>pong<user>Well?");
  EXPECT_NE(prompt_of(named + source_without_calls("no family"), {kCallMessages}).find("tool_result"),
            std::string::npos);
  // A template that names the role but does not show the message.
  const std::string hidden =
      "{# <|tool_call_start|> #}{% for m in messages if m.role != 'tool' %}{{ m.content }};{% endfor %}";
  EXPECT_NE(prompt_of(hidden, {kCallMessages}).find("tool_result"), std::string::npos);
}

TEST(ChatTemplate, TemplatesWithoutToolsOfAKnownFamilyShowTheFormOfTheFamily) {
  const std::string prompt = prompt_of(source_without_calls("<|tool_call_start|>", ""), {kHelloMessages, kPingTool});
  EXPECT_NE(prompt.find("To call a function, reply in this form: <|tool_call_start|>[NAME()]<|tool_call_end|>\nOther"),
            std::string::npos)
      << prompt;
}

TEST(ChatTemplate, TemplatesWithCallsButNoDefinitionsShowTheirOwnForm) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
      "<call>{{ c.function.name }}:{{ c.function.arguments|tojson }}</call>{% endfor %}"
      "</{{ m.role }}>{% endfor %}";
  EXPECT_EQ(create(source).capabilities().call_example, "<call>NAME:{}</call>");
  // Marks of a family in the source do not count, since the template shows its own.
  for (const std::string mark : {"", "{# <tool_call> #}"}) {
    const std::string prompt = prompt_of(source + mark, {kHelloMessages, kPingTool});
    EXPECT_NE(prompt.find("To call a function, reply in this form: <call>NAME:{}</call>\nOtherwise"), std::string::npos)
        << prompt;
  }
}

TEST(ChatTemplate, DefinitionsUnderTheTemplatesOwnName) {
  EXPECT_EQ(prompt_of("{% for f in xml_tools %}{{ f.name }}{% endfor %}{{ messages[0].content }}",
                      {kHelloMessages, kPingTool}),
            "pingHello");
  EXPECT_EQ(prompt_of("{{ functions }}{{ messages[0].content }}", {kHelloMessages, kPingTool}),
            "[\n    {\n        \"name\": \"ping\",\n        \"parameters\": {}\n    }\n]Hello");
}

// The form of older templates of Gemma 4.
constexpr const char* kFoldingSource =
    "{% for m in messages %}<|turn>{{ m.role }} {% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}"
    "{{ c.function.arguments|tojson }}<tool_call|>{% endfor %}{% for r in m.tool_responses or [] %}<|tool_response>"
    "{{ r.name }}{{ r.response|tojson }}<tool_response|>{% endfor %}{{ m.content }}<turn|>{% endfor %}";

TEST(ChatTemplate, ResultsOfOlderGemmaTemplatesAreInTheMessageOfTheirCalls) {
  const auto chat = [](const std::string& call_content, const std::string& result, const std::string& rest) {
    return Chat{R"([{"role": "assistant", "content": ")" + call_content +
                R"(", "tool_calls": [{"id": "a", "function": {"name": "ping", "arguments": {}}}]}, )" +
                R"({"role": "tool", "tool_call_id": "a", "content": )" + result + "}" + rest + "]"};
  };
  const std::string call = "<|turn>assistant <|tool_call>call:ping{}<tool_call|><|tool_response>ping";
  EXPECT_EQ(prompt_of(kFoldingSource, chat("", R"("{\"ok\": [1]}")", "")),
            call + "{\"ok\": [1]}<tool_response|><turn|>");
  EXPECT_EQ(prompt_of(kFoldingSource, chat("", R"("so \"so\"")", "")),
            call + "\"so \\\"so\\\"\"<tool_response|><turn|>");
  const std::string answer = R"(, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "U"})";
  EXPECT_EQ(prompt_of(kFoldingSource, chat("", "\"1\"", answer)),
            call + "1<tool_response|>Done.<turn|><|turn>user U<turn|>");
  EXPECT_EQ(prompt_of(kFoldingSource, chat("Hm.", "\"1\"", answer)),
            call + "1<tool_response|>Hm.<turn|><|turn>assistant Done.<turn|><|turn>user U<turn|>");
  const std::string second = R"(, {"role": "tool", "tool_call_id": "a", "content": "2"})" + answer;
  EXPECT_EQ(prompt_of(kFoldingSource, chat("", "\"1\"", second)),
            call + "1<tool_response|><|tool_response>ping2<tool_response|>Done.<turn|><|turn>user U<turn|>");
  // A newer template folds by itself. A result without a call stays a message.
  const std::string newer = std::string(kFoldingSource) + "{#- OpenAI Chat Completions: ... #}";
  EXPECT_EQ(prompt_of(newer, chat("", "\"1\"", "")),
            "<|turn>assistant <|tool_call>call:ping{}<tool_call|><turn|><|turn>tool 1<turn|>");
  EXPECT_EQ(prompt_of(kFoldingSource, {R"([{"role": "tool", "content": "1"}])"}), "<|turn>tool 1<turn|>");
  std::string unnamed = chat("", "\"1\"", "").messages;
  unnamed.replace(unnamed.find("\"tool_call_id\": \"a\""), 19, "\"tool_call_id\": \"b\"");
  EXPECT_TRUE(prompt_of(kFoldingSource, {unnamed}).ends_with("<|tool_response>1<tool_response|><turn|>"));
}

TEST(ChatTemplate, ContentsForStepTemplatesAreTrimmed) {
  const std::string source =
      "{# You have access to the following functions in JSONSchema format #}{% for m in messages %}[{% if m.content is "
      "string %}{{ m.content }}{% else %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{{ "
      "m.reasoning_content }}]{% endfor %}";
  const std::string messages =
      R"([{"role": "user", "content": " \n U\n"}, {"role": "user", "content": [{"type": "text", "text": " p "}]},
          {"role": "assistant", "content": "  ", "reasoning_content": " r\n"}])";
  jinja::Heap heap;
  const ChatRequest request{.messages = json_value(heap, messages)};
  const ChatTemplate step = create(source);
  for (const char* again : {"", "again"}) EXPECT_EQ(step.render(heap, request)->prompt.text, "[U][p][r]") << again;
  const jinja::Value parts = member_of(request.messages.as_list().items[1], "content");
  EXPECT_EQ(text_member(parts.as_list().items[0], "text"), " p ");
  EXPECT_EQ(prompt_of(source.substr(source.find('}') + 1), {messages}), "[ \n U\n][ p ][   r\n]");
}

TEST(ChatTemplate, SystemTextMovesToTheNextUserMessage) {
  EXPECT_EQ(prompt_of("gemma", {R"([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"},
                                    {"role": "system", "content": "S"}, {"role": "system", "content": "T"},
                                    {"role": "user", "content": "C"}])"}),
            "<start_of_turn>user\nA<end_of_turn>\n<start_of_turn>model\nB<end_of_turn>\n<start_of_turn>user\nS\nT\nC"
            "<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(prompt_of("gemma", {R"([{"role": "system", "content": "S"}])"}),
            "<start_of_turn>user\nS<end_of_turn>\n<start_of_turn>model\n");
}

TEST(ChatTemplate, ReasoningUnderTheTemplatesOwnName) {
  const std::string source = "{% for m in messages %}{{ m.content }}{{ m.thinking }}{{ m['reasoning'] }};{% endfor %}";
  const Chat chat{
      R"([{"role": "user", "content": "U"}, {"role": "assistant", "content": "A", "reasoning_content": "R"}])"};
  EXPECT_EQ(prompt_of(source, chat), "U;ARR;");
  EXPECT_EQ(prompt_of("{% for m in messages %}{{ m.content }}{{ m.thinking }};{% endfor %}", chat), "U;AR;");
}

TEST(ChatTemplate, VariablesOfTheRequest) {
  const std::string source =
      "{{ enable_thinking }} {{ thinking }} {{ reasoning_effort }} {{ preserve_thinking }} "
      "{{ clear_thinking }} {{ date_string }} {{ datetime }} {{ x }} {{ messages|length }}";
  EXPECT_EQ(prompt_of(source, {kHelloMessages}), "False     21 Nov 2026 Nov 21 2026  1");
  EXPECT_EQ(prompt_of("<think>" + source, {kHelloMessages}), "<think>True     21 Nov 2026 Nov 21 2026  1");
  EXPECT_EQ(prompt_of(source, {.messages = kHelloMessages, .enable_thinking = true, .reasoning_effort = "high"}),
            "True True high   21 Nov 2026 Nov 21 2026  1");
  EXPECT_EQ(prompt_of(source, {.messages = kHelloMessages, .enable_thinking = true, .reasoning_effort = "none"}),
            "False False    21 Nov 2026 Nov 21 2026  1");
  EXPECT_EQ(
      prompt_of(source, {.messages = kHelloMessages,
                         .variables = R"({"x": "X", "messages": [], "date_string": "D", "preserve_reasoning": true})"}),
      "False   True False D Nov 21 2026 X 1");
}

TEST(ChatTemplate, VariablesOfTheRequestHaveLimits) {
  const auto rendered = [](const std::string& variables) {
    return prompt_of("ok", {.messages = kHelloMessages, .variables = "{" + variables + "}"});
  };
  std::string many;
  for (int i = 0; i < 64; ++i) many += fmt::format("\"v{}\": [1, 2], ", i);
  EXPECT_EQ(rendered(many + "\"v0\": 1"), "ok");
  EXPECT_EQ(rendered(many + "\"v64\": 1"), "error: variables: more than 64 variables");
  const auto nested = [](size_t n, const std::string& open, const std::string& close) {
    std::string text = "\"x\": ";
    for (size_t i = 0; i < n; ++i) text += open;
    text += "1";
    for (size_t i = 0; i < n; ++i) text += close;
    return text;
  };
  EXPECT_EQ(rendered(nested(63, "[", "]")), "ok");
  EXPECT_EQ(rendered(nested(64, "[", "]")), "error: variables.\"x\": nested deeper than 64");
  EXPECT_EQ(rendered(nested(63, "{\"k\":", "}")), "ok");
  EXPECT_EQ(rendered(nested(64, "{\"k\":", "}")), "error: variables.\"x\": nested deeper than 64");
  const std::string too_big = "error: variables.\"y\": above 1048576 bytes";
  const auto text = [](size_t n) { return "\"" + std::string(n, 'a') + "\""; };
  EXPECT_EQ(rendered("\"x\": " + text(1048576 / 2) + ", \"y\": " + text(1048576 / 2 - 18)), "ok");
  EXPECT_EQ(rendered("\"x\": " + text(1048576 / 2) + ", \"y\": " + text(1048576 / 2 - 17)), too_big);
  EXPECT_EQ(rendered("\"x\": 1, \"y\": {" + text(1 << 20) + ": 1}"), too_big);
  std::string numbers = "1";
  for (size_t i = 0; i < (size_t{1} << 17); ++i) numbers += ",1";
  EXPECT_EQ(rendered("\"x\": 1, \"y\": [" + numbers + "]"), too_big);
}

TEST(ChatTemplate, TokensThatTheTokenizerAddsAreLeftOut) {
  const std::string source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
  const auto text = [&](ChatTokens tokens) {
    return render(create(source, std::move(tokens)), {kHelloMessages})->prompt.text;
  };
  EXPECT_EQ(text({"<s>", "</s>"}), "<s>Hello</s>");
  EXPECT_EQ(text({"<s>", "</s>", true, false}), "Hello</s>");
  EXPECT_EQ(text({"<s>", "</s>", false, true}), "<s>Hello");
  EXPECT_EQ(text({"<s>", "</s>", true, true}), "Hello");
}

TEST(ChatTemplate, ContinuesTheLastMessage) {
  const auto continued = [](const std::string& content, std::string_view source = "chatml") {
    return prompt_of(source, {.messages = R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": )" +
                                          content + "}]",
                              .continues = true});
  };
  const std::string before = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(continued("\"Well, \""), before + "Well, ");
  EXPECT_EQ(continued("\"  Well\""), before + "  Well");
  EXPECT_EQ(continued(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b "}])"), before + "a\nb ");
  EXPECT_EQ(continued("\"b \"", "{% for m in messages %}<{{ m.content|trim }}>{% endfor %}"), "<Hi><b");
  EXPECT_EQ(continued("\"b\"", "{{ messages[0].content }}"),
            "error: the last message is not in the prompt, so it cannot be continued");
  EXPECT_EQ(continued("null"), "error: the last message has no text to continue");
}

TEST(ChatTemplate, MarksWhatTheClientWrote) {
  const auto given = [](const std::string& source, const std::string& messages, const std::string& tools = "") {
    const auto prompt = render(create(source), {messages, tools});
    std::string shown;
    for_each_piece({prompt->prompt.text, prompt->prompt.given}, [&](std::string_view piece, Origin origin) {
      shown += origin == Origin::given ? "[" + std::string(piece) + "]" : std::string(piece);
    });
    return shown;
  };
  const std::string user = R"([{"role": "user", "content": " aB c "}])";
  EXPECT_EQ(given("<{{ messages[0].role }}>{{ messages[0].content }}!", user), "<user>[ aB c ]!");
  EXPECT_EQ(given("<{{ messages[0].role }}>", R"([{"role": "<x>", "content": ""}])"), "<[<x>]>");
  EXPECT_EQ(given("{{ 'x' ~ messages[0].content|trim|upper ~ 'y' }}", user), "x[AB C]y");
  EXPECT_EQ(given("{{ messages[0].content.split('B')[0] + '-' }}{{ messages[0].content[1:3] }}{{ "
                  "messages[0].content|replace('B', 'b') }}",
                  user),
            "[ a]-[aB a]b[ c ]");
  EXPECT_EQ(
      given("{{ messages[0].content|tojson }}{{ [messages[0].content, 'k'] }}{{ messages[0].content|list|join('.') }}",
            user),
      "\"[ aB c ]\"['[ aB c ]', 'k'][ ].[a].[B].[ ].[c].[ ]");
  EXPECT_EQ(given("{{ '%s|{}' % messages[0].content }}{{ '{:>8}'.format(messages[0].content) }}{{ "
                  "messages[0].content|indent }}",
                  user),
            "[ aB c ]|{}  [ aB c  aB c ]");
  EXPECT_EQ(given("{{ messages[0].content|capitalize }}{{ messages[0].content|title }}{{ messages[0].content|reverse "
                  "}}{{ messages[0].content * 2 }}",
                  user),
            "[ ab c  Ab C  c Ba  aB c  aB c ]");
  EXPECT_EQ(given("{% set x %}<{{ messages[0].content }}>{% endset %}{{ x }}{% macro f(a) %}({{ a }}){% endmacro %}{{ "
                  "f(messages[0].content) }}",
                  user),
            "<[ aB c ]>([ aB c ])");
  EXPECT_EQ(given("{% for k, v in messages[0].items() %}{{ k }}{{ v|e }}{% endfor %}", user),
            "[role]user[content aB c ]");
  EXPECT_EQ(
      given("{{ tools[0].function.name }}|{{ tools|tojson }}", kHelloMessages, R"([{"function": {"name": "f"}}])"),
      "[f]|[{\"[function]\": {\"[name]\": \"[f]\"}}]");
}

TEST(ChatMessages, TurnsBeginAfterTheSystemMessagesAndWithEachUser) {
  const auto starts_of = [](std::initializer_list<const char*> roles) {
    std::vector<ChatMessage> messages;
    for (const char* role : roles) messages.push_back({.role = role});
    return turn_starts(messages);
  };
  using Starts = std::vector<size_t>;
  EXPECT_EQ(starts_of({}), Starts());
  EXPECT_EQ(starts_of({"system"}), Starts());
  EXPECT_EQ(starts_of({"system", "user", "assistant", "tool", "assistant", "user"}), Starts({1, 5}));
  EXPECT_EQ(starts_of({"assistant", "user", "user"}), Starts({0, 1, 2}));
}

}  // namespace
}  // namespace tessera::text
