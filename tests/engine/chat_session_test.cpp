// Conversations: a reply is the same whether the session held earlier tokens or none, full contexts, cancellation, and
// the counts of replies.
#include "tessera/engine/chat_session.h"

#include <gtest/gtest.h>

#include "tessera/engine/chat_template_loader.h"
#include "tessera/gguf/split.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;
using Messages = std::vector<text::ChatMessage>;

constexpr std::string_view kPlainTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}";

text::ChatMessage user(std::string content) { return {.role = "user", .content = std::move(content)}; }
text::ChatMessage assistant(std::string content) { return {.role = "assistant", .content = std::move(content)}; }
text::ChatMessage system_message(std::string content) { return {.role = "system", .content = std::move(content)}; }

/// A path of a model with a vocabulary of bytes in place of none.
std::string with_byte_vocab(const std::string& path, const std::string& name,
                            const std::function<void(GgufBuilder&)>& change = {}) {
  EditableModel model(path);
  constexpr size_t kVocab = 256;  // of the models in tests/data/arch_specs
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; tokens.size() < kVocab; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  model.builder.set("tokenizer.ggml.model", "llama");
  model.builder.set_array("tokenizer.ggml.tokens", views);
  model.builder.set_array("tokenizer.ggml.token_type", types);
  model.builder.set_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  if (change) change(model.builder);
  return model.write(name);
}

class ChatSessionTest : public ::testing::Test {
 protected:
  void SetUp() override { open(story_model(), 256); }

  void open(const std::string& path, int64_t n_ctx, std::string_view source = kPlainTemplate) {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
    source_ = source;
    n_ctx_ = n_ctx;
    chat_ = create();
  }

  struct OpenChat {
    std::unique_ptr<Session> session;
    std::unique_ptr<ChatSession> chat;
    ChatSession* operator->() const { return chat.get(); }
  };
  OpenChat create() const {
    auto session = Session::create(engine_, {.n_ctx = n_ctx_, .n_ubatch = 16});
    EXPECT_OK(session);
    auto chat_template = text::ChatTemplate::create(std::string(source_), chat_tokens(engine_->vocab()));
    EXPECT_TRUE(chat_template.has_value());
    auto chat = std::make_unique<ChatSession>(engine_, **session, std::move(*chat_template));
    return {.session = std::move(*session), .chat = std::move(chat)};
  }

  static ChatOptions options(int64_t n_predict = 12) {
    return {.sampling = {.seed = 5, .temp = 0.9f},
            .generate = {.n_predict = n_predict, .ignore_end = true, .n_batch = 8}};
  }

  static Result<text::Reply> reply_of(ChatSession& chat, const Messages& messages, const ChatOptions& options) {
    TESSERA_TRY(chat.start(messages, options, nullptr));
    text::Reply joined;
    while (true) {
      TESSERA_ASSIGN(const bool goes_on, chat.step(nullptr));
      if (!goes_on) break;
      text::join(joined, chat.deltas());
    }
    const text::Reply reply = chat.finish();
    text::join(joined, chat.deltas());
    EXPECT_EQ(joined, reply);
    return reply;
  }

  /// Expects the reply of a session that held nothing before.
  void expect_fresh_reply(const Messages& messages, const ChatOptions& options) {
    ASSERT_OK_AND_ASSIGN(const text::Reply reply, reply_of(*chat_.chat, messages, options));
    const OpenChat fresh = create();
    ASSERT_OK_AND_ASSIGN(const text::Reply expected, reply_of(*fresh.chat, messages, options));
    EXPECT_EQ(fresh->counts().n_stored, 0);
    EXPECT_EQ(reply, expected);
    EXPECT_EQ(chat_->counts().n_generated, fresh->counts().n_generated);
  }

  std::shared_ptr<Engine> engine_;
  std::string_view source_;
  int64_t n_ctx_ = 0;
  OpenChat chat_;
};

TEST_F(ChatSessionTest, LaterTurnsReuseStoredTokensAndKeepTheirBits) {
  Messages messages = {system_message("Be kind."), user("Tell me about a fox.")};
  for (int turn = 0; turn < 3; ++turn) {
    expect_fresh_reply(messages, options());
    EXPECT_EQ(chat_->counts().n_stored > 0, turn > 0);
    messages.push_back(assistant(chat_->finish().content));
    messages.push_back(user("Go on."));
  }
}

TEST_F(ChatSessionTest, AnotherReplyComputesOnlyTheLastTokenOfThePrompt) {
  const Messages messages = {user("Tell me about a fox.")};
  expect_fresh_reply(messages, options());
  ChatOptions other = options();
  other.sampling.seed = 6;
  expect_fresh_reply(messages, other);
  EXPECT_EQ(chat_->counts().n_stored, chat_->counts().n_prompt - 1);
}

TEST_F(ChatSessionTest, AnEarlierMessageThatChangesIsComputedAnew) {
  expect_fresh_reply({user("Tell me about a fox.")}, options());
  expect_fresh_reply({user("Tell me about an owl and a mouse.")}, options());
  EXPECT_LT(chat_->counts().n_stored, chat_->counts().n_prompt - 1);
  expect_fresh_reply({user("No")}, options());
}

TEST_F(ChatSessionTest, RecurrentStatesAreComputedAnewUnlessThePromptGoesOn) {
  open(with_byte_vocab(arch_model("mamba-dense"), "mamba.gguf"), 512);
  Messages messages = {user("one")};
  expect_fresh_reply(messages, options());
  expect_fresh_reply(messages, options());  // the state is past the end of the prompt
  EXPECT_EQ(chat_->counts().n_stored, 0);
}

TEST_F(ChatSessionTest, LayersWithAWindowGoBackAsFarAsTheyCan) {
  const auto narrow = [](GgufBuilder& builder) { builder.set("gemma2.attention.sliding_window", uint32_t{20}); };
  open(with_byte_vocab(arch_model("gemma2-dense"), "window_chat.gguf", narrow), 1024);
  Messages messages = {user("a message of some length, for a window of twenty tokens"),
                       assistant("yes, of some length"), user("another message")};
  expect_fresh_reply(messages, options(100));
  messages[2] = user("more");
  expect_fresh_reply(messages, options(100));
  expect_fresh_reply({messages[0]}, options(100));
}

TEST_F(ChatSessionTest, AfterACancelledPromptTheNextReplyIsThatOfAFreshSession) {
  const std::string long_text = "It was a long and rainy day in autumn, and nobody wanted to go out for a walk.";
  CancelToken cancel;
  const auto after_two_parts = [&, n = 0](int64_t, int64_t) mutable {
    if (++n == 2) cancel.cancel();
  };
  const Result<> started = chat_->start({user(long_text)}, options(), &cancel, after_two_parts);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), ErrorCode::cancelled);
  expect_fresh_reply({user(long_text)}, options());
  EXPECT_EQ(chat_->counts().n_stored, 16);  // two parts of 8 tokens
}

TEST_F(ChatSessionTest, ACancelledReplyKeepsItsText) {
  CancelToken cancel;
  ASSERT_OK(chat_->start({user("Tell me about a fox.")}, options(), &cancel));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(*chat_->step(&cancel));
  cancel.cancel();
  const Result<bool> step = chat_->step(&cancel);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), ErrorCode::cancelled);
  const text::Reply reply = chat_->finish();
  EXPECT_NE(reply.content, "");
  expect_fresh_reply({user("Tell me about a fox."), assistant(reply.content), user("Go on.")}, options());
  EXPECT_GT(chat_->counts().n_stored, 0);
}

TEST_F(ChatSessionTest, ProgressCountsStoredTokensToo) {
  expect_fresh_reply({user("Tell me about a fox.")}, options());
  std::vector<int64_t> done;
  int64_t n_tokens = 0;
  const Messages more = {user("Tell me about a fox."), assistant("There was a fox."), user("And then it went home?")};
  ASSERT_OK(chat_->start(more, options(), nullptr, [&](int64_t n_done, int64_t n) {
    done.push_back(n_done);
    n_tokens = n;
  }));
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(n_tokens, chat_->counts().n_prompt);
  EXPECT_EQ(done.front(), chat_->counts().n_stored + 8);
  EXPECT_EQ(done.back(), n_tokens);
}

// --- full contexts

Messages long_chat(int n_turns) {
  Messages messages = {system_message("Be kind.")};
  for (int i = 0; i < n_turns; ++i) {
    messages.push_back(user(fmt::format("Tell me story number {} about a fox and a crow.", i)));
    messages.push_back(assistant(fmt::format("This is story number {}, and it ends well.", i)));
  }
  messages.push_back(user("Go on."));
  return messages;
}

TEST_F(ChatSessionTest, TheOldestTurnsLeaveAFullContextAndTheSystemMessageStays) {
  const Messages messages = long_chat(20);
  ASSERT_OK_AND_ASSIGN(const TokenizedPrompt prompt, chat_->prompt(messages, options()));
  const std::string& text = prompt.prompt.prompt.text;
  EXPECT_TRUE(text.starts_with("[system] Be kind.\n[user] Tell me story number")) << text;
  EXPECT_TRUE(text.ends_with("[user] Go on.\n[assistant] ")) << text;
  EXPECT_EQ(prompt.n_dropped % 2, 0u);
  EXPECT_GT(prompt.n_dropped, 0u);
  EXPECT_LE(prompt.tokens.size(), 128u);  // half of the context
  const Messages rest(messages.begin() + 1 + static_cast<std::ptrdiff_t>(prompt.n_dropped), messages.end());
  EXPECT_EQ(text, chat_->prompt(rest, options())->prompt.prompt.text.insert(0, "[system] Be kind.\n"));
  // With one turn more, the prompt is too large.
  const Messages more(messages.begin() - 1 + static_cast<std::ptrdiff_t>(prompt.n_dropped), messages.end());
  EXPECT_GT(chat_->prompt(more, options())->tokens.size() + 6, 128u);  // 6: the system message has at least so many
}

TEST_F(ChatSessionTest, DroppedTurnsStayOutWhileTheConversationGoesOn) {
  Messages messages = long_chat(20);
  ASSERT_OK(reply_of(*chat_.chat, messages, options()));
  const size_t n_dropped = chat_->counts().n_dropped;
  EXPECT_GT(n_dropped, 0u);
  messages.push_back(assistant("Yes."));
  messages.push_back(user("And then?"));
  ASSERT_OK(reply_of(*chat_.chat, messages, options()));
  EXPECT_EQ(chat_->counts().n_dropped, n_dropped);
  EXPECT_GT(chat_->counts().n_stored, 0);
  // Another conversation drops nothing.
  ASSERT_OK(reply_of(*chat_.chat, {user("Hello.")}, options()));
  EXPECT_EQ(chat_->counts().n_dropped, 0u);
}

TEST_F(ChatSessionTest, AReplyGoesOnWithoutTheOldestTurns) {
  const Messages messages = long_chat(2);
  ASSERT_OK(chat_->start(messages, options(-1), nullptr));
  EXPECT_EQ(chat_->counts().n_dropped, 0u);
  const int64_t n_prompt = chat_->counts().n_prompt;
  int64_t n = 0;
  while (chat_->counts().n_dropped == 0) {
    ASSERT_OK_AND_ASSIGN(const bool goes_on, chat_->step(nullptr));
    ASSERT_TRUE(goes_on);
    ASSERT_LT(++n, 300);
  }
  EXPECT_EQ(n_prompt + n, 256 + 2);  // the last token that fits, the one after it, and one of the new prompt
  // It ends where one turn is left and the context is full again.
  Result<bool> goes_on = true;
  while (goes_on && *goes_on) goes_on = chat_->step(nullptr);
  ASSERT_OK(goes_on);
  EXPECT_EQ(chat_->stop_reason(), StopReason::context_full);
  EXPECT_EQ(chat_->counts().n_generated > n, true);
  EXPECT_FALSE(chat_->finish().content.empty());
}

TEST_F(ChatSessionTest, ALimitOfTokensCountsThoseBeforeTurnsWereDropped) {
  ASSERT_OK(reply_of(*chat_.chat, long_chat(2), options(150)));
  EXPECT_GT(chat_->counts().n_dropped, 0u);
  EXPECT_EQ(chat_->counts().n_generated, 150);
  EXPECT_EQ(chat_->stop_reason(), StopReason::n_predict);
}

TEST_F(ChatSessionTest, WithoutDroppingAFullContextIsAnErrorOrTheEnd) {
  ChatOptions fixed = options(-1);
  fixed.drops_turns = false;
  const Result<> refused = chat_->start(long_chat(20), fixed, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::limit);
  EXPECT_NE(refused.error().message().find("the context holds 256 (option n_ctx"), std::string::npos)
      << refused.error().message();
  ASSERT_OK(reply_of(*chat_.chat, long_chat(2), fixed));
  EXPECT_EQ(chat_->stop_reason(), StopReason::context_full);
  EXPECT_EQ(chat_->counts().n_dropped, 0u);
  EXPECT_EQ(chat_->counts().n_prompt + chat_->counts().n_generated, 257);
}

TEST_F(ChatSessionTest, AMessageLargerThanTheContextIsRefusedAndTheNextOneWorks) {
  const Result<> refused = chat_->start({user(std::string(5000, 'x'))}, options(), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::limit);
  expect_fresh_reply({user("Hello.")}, options());
}

// --- prompts and replies

TEST_F(ChatSessionTest, MessagesCannotWriteControlTokens) {
  open(story_model(), 256, "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}");
  ASSERT_OK_AND_ASSIGN(const TokenizedPrompt prompt, chat_->prompt(Messages{user("a</s>b<s>")}, options()));
  const text::Vocab& vocab = engine_->vocab();
  EXPECT_EQ(std::ranges::count(prompt.tokens, *vocab.special(text::SpecialToken::eos)), 1);
  EXPECT_EQ(std::ranges::count(prompt.tokens, *vocab.special(text::SpecialToken::bos)), 1);
}

TEST_F(ChatSessionTest, ReasoningThatThePromptBeginsIsCounted) {
  open(story_model(), 256,
       "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"
       "{# </think> #}");
  ASSERT_OK_AND_ASSIGN(const text::Reply reply, reply_of(*chat_.chat, {user("Once upon")}, options()));
  EXPECT_EQ(reply.content, "");
  EXPECT_NE(reply.reasoning, "");
  EXPECT_EQ(chat_->counts().n_reasoning, chat_->counts().n_generated);
}

TEST_F(ChatSessionTest, ErrorsNameTheOption) {
  ChatOptions wrong = options();
  wrong.tools = "[{]";
  Result<> started = chat_->start({user("a")}, wrong, nullptr);
  ASSERT_FALSE(started);
  EXPECT_TRUE(started.error().message().starts_with("tools: not JSON")) << started.error().message();
  wrong.tools = "[{}]";
  started = chat_->start({user("a")}, wrong, nullptr);
  EXPECT_FALSE(started);
  wrong.tools.clear();
  wrong.variables = "{";
  started = chat_->start({user("a")}, wrong, nullptr);
  ASSERT_FALSE(started);
  EXPECT_TRUE(started.error().message().starts_with("variables: not JSON")) << started.error().message();
  open(story_model(), 256, "{{ raise_exception('no ' + messages[0].content) }}");
  started = chat_->start({user("a")}, options(), nullptr);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message().find("no a"), std::string::npos) << started.error().message();
}

TEST_F(ChatSessionTest, APromptWithoutTokensIsRefused) {
  const auto without_bos = [](GgufBuilder& builder) { builder.set("tokenizer.ggml.add_bos_token", false); };
  open(with_byte_vocab(arch_model("gemma2-dense"), "no_bos_chat.gguf", without_bos), 64,
       "{% if messages[0].content == 'say' %}said{% endif %}");
  expect_fresh_reply({user("say")}, options());
  const Result<> started = chat_->start({user("nothing")}, options(), nullptr);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message(), "the prompt has no tokens");
}

TEST_F(ChatSessionTest, AFileMayHaveATemplateForTools) {
  const auto with_tool_template = [](GgufBuilder& builder) {
    builder.set("tokenizer.chat_template", "plain");
    builder.set("tokenizer.chat_template.tool_use", "with tools");
  };
  const std::string path = with_byte_vocab(story_model(), "two_templates.gguf", with_tool_template);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(path));
  EXPECT_EQ(*load_chat_template(files->metadata(), false), "plain");
  EXPECT_EQ(*load_chat_template(files->metadata(), true), "with tools");
  ASSERT_OK_AND_ASSIGN(const auto without, ModelFiles::open(story_model()));
  EXPECT_EQ(*load_chat_template(without->metadata(), true), std::nullopt);
}

TEST_F(ChatSessionTest, VariablesReachTheTemplate) {
  open(story_model(), 256, "{{ style }} {{ enable_thinking }} {{ reasoning_effort }} {{ messages|length }}");
  ChatOptions more = options();
  more.variables = R"({"style": "short"})";
  more.enable_thinking = true;
  more.reasoning_effort = "low";
  ASSERT_OK_AND_ASSIGN(const TokenizedPrompt prompt, chat_->prompt(Messages{user("a")}, more));
  EXPECT_EQ(prompt.prompt.prompt.text, "short True low 1");
}

}  // namespace
}  // namespace tessera
