// Chat templates and replies of tessera.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

using TemplateHandle = std::unique_ptr<tessera_template, decltype(&tessera_template_release)>;

constexpr const char* kTalk =
    R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "<s>Well?"}])";
constexpr const char* kPing = R"([{"type": "function", "function": {"name": "ping", "parameters": {}}}])";
// A template of the family whose calls are JSON between <tool_call> and </tool_call>.
constexpr const char* kCalling =
    "{% if tools %}{{ tools|map(attribute='function.name')|join }};{% endif %}{% for d in documents %}{{ d.title }};"
    "{% endfor %}{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.reasoning_content %}({{ "
    "m.reasoning_content }}){% endif %}{% for c in m.tool_calls %}<tool_call>{{ c.function|tojson }}</tool_call>"
    "{% endfor %};{% endfor %}{{ mood }}{% if add_generation_prompt %}assistant:<think>{% endif %}";

tessera_render_options render_options() {
  tessera_render_options options;
  tessera_render_options_init(&options, sizeof options);
  return options;
}

tessera_reply_options reply_options(int32_t end = TESSERA_REPLY_ENDED) {
  tessera_reply_options options;
  tessera_reply_options_init(&options, sizeof options);
  options.end = end;
  return options;
}

// A copy of the story model with more keys.
std::string story_with(const std::vector<std::pair<std::string, std::string>>& keys) {
  const auto file = GgufFile::open(story_model());
  if (!file) return {};
  GgufBuilder builder;
  EXPECT_OK(builder.set_all((*file)->metadata()));
  for (const auto& [key, value] : keys) builder.set(key, value);
  for (const GgufTensor& tensor : (*file)->tensors())
    EXPECT_OK(builder.add_tensor(tensor.name, tensor.dtype, tensor.shape));
  const std::string path = temporary_path("story-with-template.gguf");
  auto writer = GgufWriter::create(path, builder);
  EXPECT_OK(writer);
  for (const GgufTensor& tensor : (*file)->tensors())
    EXPECT_OK(writer->write_tensor(tensor.name, (*file)->data(tensor)));
  EXPECT_OK(writer->finish());
  return path;
}

class CapiChat : public ::testing::Test {
 protected:
  TemplateHandle open(const char* source, const tessera_model* model = nullptr, uint32_t flags = 0) const {
    tessera_template* created = nullptr;
    const tessera_model* of = model == nullptr ? model_.get() : model;
    EXPECT_SUCCESS(tessera_template_open(of, source, -1, flags, &created, error));
    return {created, tessera_template_release};
  }
  static std::string render(const TemplateHandle& of, const char* messages,
                            const tessera_render_options* options = nullptr, uint64_t* reply_at = nullptr) {
    std::vector<char> text(1000);
    uint64_t n = 0;
    EXPECT_SUCCESS(
        tessera_template_render(of.get(), messages, -1, options, text.data(), text.size(), &n, reply_at, error));
    EXPECT_EQ(text[n - 1], '\0');
    return text.data();
  }
  static std::string parse(const TemplateHandle& of, const std::string& text,
                           const tessera_reply_options& options = reply_options()) {
    std::vector<char> message(1000);
    uint64_t n = 0;
    EXPECT_SUCCESS(tessera_reply_parse(of.get(), text.data(), static_cast<int64_t>(text.size()), &options,
                                       message.data(), message.size(), &n, error));
    EXPECT_EQ(message[n - 1], '\0');
    return message.data();
  }

  RuntimeHandle runtime_ = create_runtime_handle(1);
  ModelHandle model_ = open_story(runtime_.get(), false);
};

TEST_F(CapiChat, BuiltInTemplatesWritePrompts) {
  const TemplateHandle chatml = open("chatml");
  constexpr std::string_view kWithoutReply =
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n"
      "<|im_start|>user\n<s>Well?<|im_end|>\n";
  uint64_t reply_at = 0;
  EXPECT_EQ(render(chatml, kTalk, nullptr, &reply_at), std::string(kWithoutReply) + "<|im_start|>assistant\n");
  EXPECT_EQ(reply_at, kWithoutReply.size());
  tessera_render_options options = render_options();
  options.flags = TESSERA_RENDER_NO_REPLY;
  EXPECT_EQ(render(chatml, kTalk, &options, &reply_at), kWithoutReply);
  EXPECT_EQ(reply_at, kWithoutReply.size());
  options.flags = TESSERA_RENDER_CONTINUE_LAST;
  EXPECT_EQ(render(chatml, R"([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}])", &options),
            "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB");
}

TEST_F(CapiChat, MessagesAreAdaptedUnlessThatIsOff) {
  const TemplateHandle plain = open("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
  constexpr const char* kDeveloper = R"([{"role": "developer", "content": "D"}])";
  EXPECT_EQ(render(plain, kDeveloper), "system:D;");
  tessera_render_options options = render_options();
  options.flags = TESSERA_RENDER_NO_CHANGES;
  EXPECT_EQ(render(plain, kDeveloper, &options), "developer:D;");
}

TEST_F(CapiChat, OptionsReachTheTemplate) {
  const TemplateHandle calling = open(kCalling);
  tessera_render_options options = render_options();
  options.tools = kPing;
  options.documents = R"([{"title": "T", "text": "x"}])";
  options.variables = R"({"mood": "M"})";
  constexpr const char* kHello = R"([{"role": "user", "content": "Hello"}])";
  EXPECT_EQ(render(calling, kHello, &options), "ping;T;user:Hello;Massistant:<think>");

  const TemplateHandle shows = open("{{ enable_thinking }} {{ reasoning_effort }} {{ date_string }}</think>");
  options = render_options();
  options.time = 86'400 * 200 + 43'200;  // noon of 1970-07-20
  options.reasoning_effort = "low";
  options.thinking = TESSERA_THINKING_ON;
  EXPECT_EQ(render(shows, kHello, &options), "True low 20 Jul 1970</think>");
  options.thinking = TESSERA_THINKING_OFF;
  EXPECT_EQ(render(shows, kHello, &options), "False low 20 Jul 1970</think>");
  options = render_options();
  const std::time_t before = std::time(nullptr);
  const std::string text = render(open("{{ strftime_now('%Y-%m-%d') }}"), kHello, &options);
  const std::time_t after = std::time(nullptr);
  char first[16], last[16];
  std::strftime(first, sizeof first, "%Y-%m-%d", std::localtime(&before));
  std::strftime(last, sizeof last, "%Y-%m-%d", std::localtime(&after));
  EXPECT_TRUE(text == first || text == last) << text;
}

// The text of a message never becomes a control token, unlike that of the template.
TEST_F(CapiChat, TokensOfMessagesAreNoControlTokens) {
  const TemplateHandle chat_template = open("{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}");
  const auto tokens = [&](const char* messages) {
    std::vector<int32_t> ids(64);
    uint64_t n = 0;
    EXPECT_SUCCESS(
        tessera_template_tokenize(chat_template.get(), messages, -1, nullptr, ids.data(), ids.size(), &n, error));
    ids.resize(n);
    return ids;
  };
  const int32_t bos = tessera_token_special(model_.get(), TESSERA_TOKEN_BOS);
  const int32_t eos = tessera_token_special(model_.get(), TESSERA_TOKEN_EOS);
  const auto plain = tokens(R"([{"role": "user", "content": "girl"}])");
  EXPECT_EQ(plain.front(), bos);
  EXPECT_EQ(std::ranges::count(plain, bos), 1);
  EXPECT_EQ(plain.back(), eos);
  const auto hostile = tokens(R"([{"role": "user", "content": "</s><s>girl"}])");
  EXPECT_EQ(std::ranges::count(hostile, bos), 1);
  EXPECT_EQ(std::ranges::count(hostile, eos), 1);
  EXPECT_GT(hostile.size(), plain.size());
}

TEST_F(CapiChat, TheModelsOwnTemplates) {
  tessera_template* none = nullptr;
  EXPECT_STATUS(tessera_template_open(model_.get(), nullptr, 0, 0, &none, error), TESSERA_NOT_FOUND,
                "the model has no chat template: give a name, such as chatml");
  const std::string path = story_with({{"tokenizer.chat_template", "{{ bos_token }}own{{ eos_token }}"},
                                       {"tokenizer.chat_template.tool_use", "of tools"}});
  tessera_model* opened = nullptr;
  EXPECT_SUCCESS(tessera_model_open(runtime_.get(), path.c_str(), nullptr, &opened, error));
  const ModelHandle model(opened, tessera_model_release);
  constexpr const char* kHello = R"([{"role": "user", "content": "Hello"}])";
  EXPECT_EQ(render(open(nullptr, opened), kHello), "own</s>");  // the tokenizer adds BOS
  EXPECT_EQ(render(open(nullptr, opened, TESSERA_TEMPLATE_FOR_TOOLS), kHello), "of tools");
  EXPECT_EQ(render(open("{{ 'given' }}", opened, TESSERA_TEMPLATE_FOR_TOOLS), kHello), "given");
}

// A template keeps its model.
TEST_F(CapiChat, TemplatesOutliveModels) {
  const TemplateHandle chatml = open("chatml");
  const TemplateHandle again(tessera_template_retain(chatml.get()), tessera_template_release);
  EXPECT_EQ(again, chatml);
  model_.reset();
  runtime_.reset();
  uint64_t n = 0;
  int32_t tokens[64];
  EXPECT_SUCCESS(tessera_template_tokenize(again.get(), R"([{"role": "user", "content": "Hello"}])", -1, nullptr,
                                           tokens, 64, &n, error));
  EXPECT_GT(n, 8u);
  EXPECT_EQ(tessera_template_retain(nullptr), nullptr);
  tessera_template_release(nullptr);
}

TEST_F(CapiChat, RepliesBecomeMessages) {
  const TemplateHandle calling = open(kCalling);
  tessera_reply_options options = reply_options();
  options.tools = kPing;
  options.prompt = "assistant:<think>";
  const std::string reply =
      "Why \"so\"?</think>Pong\n<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1}}</tool_call>"
      "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>";
  const std::string message = parse(calling, reply, options);
  const std::string start =
      R"({"role": "assistant", "content": "Pong", "reasoning_content": "Why \"so\"?", "tool_calls": [)";
  ASSERT_TRUE(message.starts_with(start)) << message;
  const auto count = [](const std::string& text, std::string_view part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count(message, R"(", "type": "function", "function": {"name": "ping", "arguments": ")"), 2u) << message;
  EXPECT_EQ(count(message, R"("arguments": "{\"n\": 1}"}}, {"id": ")"), 1u) << message;
  EXPECT_TRUE(message.ends_with(R"("arguments": "{}"}}]})")) << message;
  EXPECT_EQ(parse(calling, reply, options), message);  // also the ids
  options.seed = 1;
  EXPECT_NE(parse(calling, reply, options), message);

  // It can be a message of the next prompt.
  const std::string talk = R"([{"role": "user", "content": "Go"}, )" + message + "]";
  tessera_render_options again = render_options();
  again.flags = TESSERA_RENDER_NO_REPLY;
  EXPECT_EQ(render(calling, talk.c_str(), &again),
            "user:Go;assistant:Pong(Why \"so\"?)<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1}}</tool_call>"
            "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>;");

  options.flags = TESSERA_PARSE_ONE_CALL;
  EXPECT_EQ(count(parse(calling, reply, options), "\"ping\""), 1u);
  options.flags = 0;
  options.tools = nullptr;
  EXPECT_EQ(count(parse(calling, reply, options), "\"tool_calls\""), 0u);
  options.prompt = nullptr;
  EXPECT_TRUE(parse(calling, "a", options).starts_with(R"({"role": "assistant", "content": "a"})"));
}

TEST_F(CapiChat, PlaceOfReasoning) {
  const TemplateHandle calling = open(kCalling);
  tessera_reply_options options = reply_options();
  const std::string reply = "<think>R</think>A";
  EXPECT_EQ(parse(calling, reply, options), R"({"role": "assistant", "content": "A", "reasoning_content": "R"})");
  options.reasoning = TESSERA_REASONING_CONTENT;
  EXPECT_EQ(parse(calling, reply, options), R"({"role": "assistant", "content": "<think>R</think>A"})");
  options.reasoning = TESSERA_REASONING_BOTH;
  EXPECT_EQ(parse(calling, reply, options),
            R"({"role": "assistant", "content": "<think>R</think>A", "reasoning_content": "R"})");
}

// The message of a growing text grows, and a part of a mark or of a character waits.
TEST_F(CapiChat, RepliesGrow) {
  const TemplateHandle calling = open(kCalling);
  tessera_reply_options options = reply_options(TESSERA_REPLY_GROWS);
  options.tools = kPing;
  const std::pair<const char*, const char*> steps[] = {
      {"", R"({"role": "assistant", "content": ""})"},
      {"A <tool_", R"({"role": "assistant", "content": "A"})"},
      {"A <tool_x \xc3", R"({"role": "assistant", "content": "A <tool_x"})"},
      {"A <tool_x \xc3\xa4", R"({"role": "assistant", "content": "A <tool_x ä"})"},
  };
  for (const auto& [text, message] : steps) EXPECT_EQ(parse(calling, text, options), message);
  constexpr const char* kOpen = "A<tool_call>{\"name\": \"ping\", \"argum";
  options.end = TESSERA_REPLY_ENDED;
  const std::string ended = parse(calling, kOpen, options);
  EXPECT_NE(ended.find("\"warnings\": [\""), std::string::npos) << ended;
  options.end = TESSERA_REPLY_CUT;
  EXPECT_EQ(parse(calling, kOpen, options), ended);
  // A call that is code up to the end of the reply: only an ended one is whole.
  const TemplateHandle code = open("<|python_tag|><function={{ x }}");
  options.end = TESSERA_REPLY_ENDED;
  const std::string whole = parse(code, "<|python_tag|>1 + 1", options);
  EXPECT_NE(whole.find("\"tool_calls\""), std::string::npos) << whole;
  options.end = TESSERA_REPLY_CUT;
  EXPECT_EQ(parse(code, "<|python_tag|>1 + 1", options),
            R"({"role": "assistant", "content": "<|python_tag|>1 + 1", "warnings": ["tool call cut short"]})");
}

// Programs that were compiled with an older or a newer header.
TEST_F(CapiChat, OptionsOfOtherSizes) {
  const TemplateHandle calling = open(kCalling);
  constexpr const char* kHello = R"([{"role": "user", "content": "Hello"}])";
  tessera_render_options older;
  std::memset(&older, 0x55, sizeof older);
  tessera_render_options_init(&older, offsetof(tessera_render_options, documents));
  EXPECT_EQ(older.size, offsetof(tessera_render_options, documents));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(older.documents), uintptr_t{0x5555555555555555});
  older.tools = kPing;
  EXPECT_EQ(render(calling, kHello, &older), "ping;user:Hello;assistant:<think>");
  struct Newer {
    tessera_reply_options options;
    int64_t more;
  } newer{};
  tessera_reply_options_init(&newer.options, sizeof newer);
  EXPECT_EQ(newer.options.size, sizeof newer);
  EXPECT_EQ(parse(calling, "a", newer.options), R"({"role": "assistant", "content": "a"})");
  newer.more = 1;
  char message[64];
  EXPECT_STATUS(tessera_reply_parse(calling.get(), "a", 1, &newer.options, message, 64, nullptr, error),
                TESSERA_UNSUPPORTED, "options: a member after byte ");
  tessera_render_options_init(nullptr, sizeof(tessera_render_options));
  tessera_reply_options_init(nullptr, sizeof(tessera_reply_options));
}

TEST_F(CapiChat, TemplatesRefuseWrongArguments) {
  tessera_template* created = nullptr;
  const auto refuse = [&](const tessera_model* model, const char* source, int64_t length, uint32_t flags,
                          tessera_status status, const std::string& text) {
    EXPECT_STATUS(tessera_template_open(model, source, length, flags, &created, error), status, text);
    EXPECT_EQ(created, nullptr);
  };
  refuse(nullptr, "chatml", -1, 0, TESSERA_INVALID_ARGUMENT, "model: is NULL");
  refuse(reinterpret_cast<tessera_model*>(runtime_.get()), "chatml", -1, 0, TESSERA_INVALID_ARGUMENT,
         "model: is a handle of another kind");
  refuse(model_.get(), "chatml", -2, 0, TESSERA_INVALID_ARGUMENT, "source: length -2");
  refuse(model_.get(), "chatml", -1, 2, TESSERA_INVALID_ARGUMENT, "flags: 0x2, known are 0x1");
  refuse(model_.get(), "chatmi", -1, 0, TESSERA_NOT_FOUND, "no chat template has the name \"chatmi\", known: chatml, ");
  refuse(model_.get(), "chatml", 5, 0, TESSERA_NOT_FOUND, "no chat template has the name \"chatm\"");
  refuse(model_.get(), "{% if %}", -1, 0, TESSERA_FORMAT, "template: 1:7: ");
  EXPECT_STATUS(tessera_template_open(model_.get(), "chatml", -1, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "created: is NULL");
}

TEST_F(CapiChat, PromptsRefuseWrongArguments) {
  const TemplateHandle chatml = open("chatml");
  constexpr const char* kHello = R"([{"role": "user", "content": "Hello"}])";
  char text[256] = "x";
  int32_t tokens[256] = {-7};
  uint64_t n = 99, reply_at = 99;
  const auto refuse = [&](const tessera_template* of, const char* messages, int64_t length,
                          const tessera_render_options* options, tessera_status status, const std::string& message) {
    EXPECT_STATUS(tessera_template_render(of, messages, length, options, text, sizeof text, &n, &reply_at, error),
                  status, message);
    EXPECT_STATUS(tessera_template_tokenize(of, messages, length, options, tokens, 256, &n, error), status, message);
    EXPECT_EQ(text[0], 'x');
    EXPECT_EQ(tokens[0], -7);
    EXPECT_EQ(n, 99u);
    EXPECT_EQ(reply_at, 99u);
  };
  refuse(nullptr, kHello, -1, nullptr, TESSERA_INVALID_ARGUMENT, "chat_template: is NULL");
  refuse(reinterpret_cast<tessera_template*>(model_.get()), kHello, -1, nullptr, TESSERA_INVALID_ARGUMENT,
         "chat_template: is a handle of another kind");
  refuse(chatml.get(), nullptr, -1, nullptr, TESSERA_INVALID_ARGUMENT, "messages: is NULL");
  refuse(chatml.get(), kHello, -2, nullptr, TESSERA_INVALID_ARGUMENT, "messages: length -2");
  refuse(chatml.get(), kHello, 9, nullptr, TESSERA_FORMAT, "messages: not JSON");
  refuse(chatml.get(), "{}", -1, nullptr, TESSERA_INVALID_ARGUMENT, "messages: missing, want a list");
  refuse(chatml.get(), R"([{"content": ""}])", -1, nullptr, TESSERA_INVALID_ARGUMENT, "messages[0].role: missing");
  refuse(chatml.get(), "[{\"role\": \"user\", \"content\": \"\xff\"}]", -1, nullptr, TESSERA_FORMAT, "messages: ");
  const auto refuse_options = [&](auto change, tessera_status status, const std::string& message) {
    tessera_render_options options = render_options();
    change(options);
    refuse(chatml.get(), kHello, -1, &options, status, message);
  };
  refuse_options([](auto& o) { o.size = 3; }, TESSERA_INVALID_ARGUMENT, "options: size is 3");
  refuse_options([](auto& o) { o.flags = 8; }, TESSERA_INVALID_ARGUMENT, "flags: 0x8, known are 0x7");
  refuse_options([](auto& o) { o.thinking = 3; }, TESSERA_INVALID_ARGUMENT, "thinking: 3, want 0 to 2");
  refuse_options([](auto& o) { o.thinking = -1; }, TESSERA_INVALID_ARGUMENT, "thinking: -1, want 0 to 2");
  refuse_options([](auto& o) { o.tools = "["; }, TESSERA_FORMAT, "tools: not JSON");
  refuse_options([](auto& o) { o.tools = "3"; }, TESSERA_INVALID_ARGUMENT, "tools");
  refuse_options([](auto& o) { o.documents = "x"; }, TESSERA_FORMAT, "documents: not JSON");
  refuse_options([](auto& o) { o.variables = "x"; }, TESSERA_FORMAT, "variables: not JSON");
  refuse_options([](auto& o) { o.variables = "[]"; }, TESSERA_INVALID_ARGUMENT, "variables: not an object");
  const TemplateHandle raises = open("{{ raise_exception('no such role') }}");
  refuse(raises.get(), kHello, -1, nullptr, TESSERA_FORMAT, "no such role");

  EXPECT_STATUS(tessera_template_render(chatml.get(), kHello, -1, nullptr, text, 10, &n, &reply_at, error),
                TESSERA_LIMIT, "buffer: ");
  EXPECT_EQ(text[0], 'x');
  EXPECT_EQ(reply_at, 99u);
  const uint64_t n_text = n;
  EXPECT_STATUS(tessera_template_render(chatml.get(), kHello, -1, nullptr, text, n_text - 1, &n, nullptr, error),
                TESSERA_LIMIT, "buffer: ");
  EXPECT_SUCCESS(tessera_template_render(chatml.get(), kHello, -1, nullptr, text, n_text, nullptr, nullptr, error));
  EXPECT_EQ(std::string(text).size() + 1, n_text);
  EXPECT_STATUS(tessera_template_render(chatml.get(), kHello, -1, nullptr, nullptr, 99, &n, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "buffer: is NULL");
  EXPECT_STATUS(tessera_template_tokenize(chatml.get(), kHello, -1, nullptr, tokens, 1, &n, error), TESSERA_LIMIT,
                "tokens: ");
  EXPECT_EQ(tokens[0], -7);
  EXPECT_STATUS(tessera_template_tokenize(chatml.get(), kHello, -1, nullptr, nullptr, 256, &n, error),
                TESSERA_INVALID_ARGUMENT, "tokens: is NULL");
  EXPECT_SUCCESS(tessera_template_tokenize(chatml.get(), kHello, -1, nullptr, tokens, n, nullptr, error));
}

TEST_F(CapiChat, RepliesRefuseWrongArguments) {
  const TemplateHandle chatml = open("chatml");
  char text[256] = "x";
  uint64_t n = 99;
  const auto refuse = [&](const tessera_template* of, const char* reply, int64_t length,
                          const tessera_reply_options* options, tessera_status status, const std::string& message) {
    EXPECT_STATUS(tessera_reply_parse(of, reply, length, options, text, sizeof text, &n, error), status, message);
    EXPECT_EQ(text[0], 'x');
    EXPECT_EQ(n, 99u);
  };
  refuse(nullptr, "a", 1, nullptr, TESSERA_INVALID_ARGUMENT, "chat_template: is NULL");
  refuse(reinterpret_cast<tessera_template*>(model_.get()), "a", 1, nullptr, TESSERA_INVALID_ARGUMENT,
         "chat_template: is a handle of another kind");
  refuse(chatml.get(), nullptr, 1, nullptr, TESSERA_INVALID_ARGUMENT, "text: is NULL");
  refuse(chatml.get(), "a", -2, nullptr, TESSERA_INVALID_ARGUMENT, "text: length -2");
  const auto refuse_options = [&](auto change, tessera_status status, const std::string& message) {
    tessera_reply_options options = reply_options();
    change(options);
    refuse(chatml.get(), "a", 1, &options, status, message);
  };
  refuse_options([](auto& o) { o.size = 3; }, TESSERA_INVALID_ARGUMENT, "options: size is 3");
  refuse_options([](auto& o) { o.flags = 2; }, TESSERA_INVALID_ARGUMENT, "flags: 0x2, known are 0x1");
  refuse_options([](auto& o) { o.end = 3; }, TESSERA_INVALID_ARGUMENT, "end: 3, want 0 to 2");
  refuse_options([](auto& o) { o.end = -1; }, TESSERA_INVALID_ARGUMENT, "end: -1, want 0 to 2");
  refuse_options([](auto& o) { o.reasoning = 3; }, TESSERA_INVALID_ARGUMENT, "reasoning: 3, want 0 to 2");
  refuse_options([](auto& o) { o.reasoning = -1; }, TESSERA_INVALID_ARGUMENT, "reasoning: -1, want 0 to 2");
  refuse_options([](auto& o) { o.tools = "[{}]"; }, TESSERA_FORMAT, "tools[0]");
  EXPECT_STATUS(tessera_reply_parse(chatml.get(), "a", 1, nullptr, text, 10, &n, error), TESSERA_LIMIT, "buffer: ");
  EXPECT_EQ(text[0], 'x');
  EXPECT_STATUS(tessera_reply_parse(chatml.get(), "a", 1, nullptr, nullptr, 99, &n, error), TESSERA_INVALID_ARGUMENT,
                "buffer: is NULL");
  EXPECT_SUCCESS(tessera_reply_parse(chatml.get(), "a", 1, nullptr, text, n, nullptr, error));
  EXPECT_EQ(std::string(text), R"({"role": "assistant", "content": "a"})");
  EXPECT_EQ(std::string(text).size() + 1, n);
}

}  // namespace
}  // namespace tessera
