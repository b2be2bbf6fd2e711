// Generation with a grammar: forced text, ends, clones, a full context, and refusals.
#include "tessera/engine/grammar_mask.h"

#include <gtest/gtest.h>

#include "tessera/engine/generate.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;
using text::grammar::Grammar;

class GrammarMaskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    vocab_ = mask_vocab(*engine_);
  }

  std::unique_ptr<GrammarMask> mask(std::string_view gbnf) {
    const auto grammar = Grammar::from_gbnf(gbnf);
    EXPECT_TRUE(grammar) << grammar.error().text();
    auto made = GrammarMask::create(engine_, vocab_, *grammar);
    EXPECT_OK(made);
    return std::move(*made);
  }

  struct Generated {
    std::string text;
    std::vector<int32_t> tokens;
    size_t n_steps = 0;  // forward passes after the prompt
    StopReason stop;
  };
  Result<Generated> generate(std::string_view gbnf, const GenerateOptions& options, int64_t n_ctx = 256) {
    TESSERA_ASSIGN(const auto session, Session::create(engine_, {.n_ctx = n_ctx, .n_ubatch = 64}));
    TESSERA_ASSIGN(const auto chain, sample::Chain::create({.seed = 3, .temp = 1.5f}, sampling_vocab(engine_),
                                                           static_cast<int32_t>(n_ctx)));
    chain->constrain(mask(gbnf));
    Generator generator(*session, *chain, 0, options);
    TESSERA_TRY(generator.start(token_ids(*engine_, 5), nullptr));
    Generated made;
    session->observe_steps([&](const StepView&) { ++made.n_steps; });
    while (true) {
      TESSERA_ASSIGN(const int32_t token, generator.next(nullptr));
      if (token < 0) break;
      made.tokens.push_back(token);
      made.text += vocab_->token(token).text;
    }
    session->observe_steps({});
    made.stop = generator.stop_reason();
    return made;
  }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const text::grammar::MaskVocab> vocab_;
};

constexpr std::string_view kStory = "root ::= \"Once upon a time there was a \" [a-z]{3} \" in the big garden.\"";

TEST_F(GrammarMaskTest, ForcedTextCostsFewForwardPasses) {
  ASSERT_OK_AND_ASSIGN(const Generated forced, generate(kStory, {}));
  ASSERT_OK_AND_ASSIGN(const Generated sampled, generate(kStory, {.forces_text = false}));
  for (const Generated* made : {&forced, &sampled}) {
    EXPECT_TRUE(made->text.starts_with("Once upon a time there was a ")) << made->text;
    EXPECT_TRUE(made->text.ends_with(" in the big garden.")) << made->text;
    EXPECT_EQ(made->text.size(), 51u);
    EXPECT_EQ(made->stop, StopReason::end_of_text);
  }
  // One pass for each sampled token, and one for all forced tokens between two of them.
  EXPECT_EQ(sampled.n_steps + 1, sampled.tokens.size());
  EXPECT_LT(forced.n_steps, forced.tokens.size() / 2);
  // A batch of one computes forced tokens one by one, to the same text.
  ASSERT_OK_AND_ASSIGN(const Generated single, generate(kStory, {.n_batch = 1}));
  EXPECT_EQ(single.tokens, forced.tokens);
  EXPECT_GT(single.n_steps, forced.n_steps);
}

TEST_F(GrammarMaskTest, ForcedTokensAreThoseOfTheTokenizer) {
  const auto once = mask("root ::= [AB] \" once upon a time\" [a-z]");
  EXPECT_TRUE(once->forced().empty());  // there is a choice
  ASSERT_OK_AND_ASSIGN(const auto whole, engine_->tokenizer().tokenize("A once upon a time", {.add_special = false}));
  const auto begin = std::ranges::find(whole, "A", [&](int32_t id) { return vocab_->token(id).text; });
  const size_t n_first = begin == whole.end() ? 1 : 2;  // " A", or " " and "A"
  ASSERT_OK(once->accept(*engine_->vocab().find("A")));
  const std::vector<int32_t> forced = once->forced();
  ASSERT_GT(forced.size(), 3u);
  EXPECT_TRUE(std::ranges::equal(forced, std::span(whole).subspan(n_first, forced.size())));
  EXPECT_EQ(once->forced(), forced);  // they are not part of the text yet
  for (const int32_t token : forced) ASSERT_OK(once->accept(token));
}

TEST_F(GrammarMaskTest, TheEndIsWhereNothingCanFollow) {
  const auto ab = mask("root ::= \"a\" \"b\"?");
  EXPECT_FALSE(ab->is_finished());
  ASSERT_OK_AND_ASSIGN(const auto first, ab->allowed());
  const int32_t a = first.ids[0];
  ASSERT_OK(ab->accept(a));
  EXPECT_FALSE(ab->is_finished());  // "b" may follow
  const auto copy = ab->clone();
  EXPECT_EQ(ab->accept(a).error().message(), fmt::format("grammar: token {} cannot follow the text", a));
  ASSERT_OK_AND_ASSIGN(const auto second, copy->allowed());
  bool has_end = false;
  for (const int32_t id : second.ids) has_end |= vocab_->token(id).ends_text;
  EXPECT_TRUE(has_end);
  for (const int32_t id : std::vector(second.ids.begin(), second.ids.end())) {
    if (vocab_->token(id).text != "b") continue;
    ASSERT_OK(copy->accept(id));
    EXPECT_TRUE(copy->is_finished());
    break;
  }
  EXPECT_FALSE(ab->is_finished());
  ab->reset();
  ASSERT_OK(ab->accept(a));
}

TEST_F(GrammarMaskTest, PreparedMasksAreFoundByAnotherThread) {
  std::vector<text::grammar::MaskVocab::Token> tokens;
  for (int32_t id = 0; vocab_->contains(id); ++id) tokens.push_back(vocab_->token(id));
  tokens.resize(20'000);  // a smaller vocabulary is not worth a thread
  vocab_ = std::make_shared<const text::grammar::MaskVocab>(std::move(tokens));
  const auto ab = mask("root ::= \"a\" [b-y]{2,9} [0-9]");
  ASSERT_OK_AND_ASSIGN(const auto first, ab->allowed());
  EXPECT_FALSE(ab->needs_search());
  ASSERT_OK(ab->accept(first.ids[0]));
  EXPECT_TRUE(ab->needs_search());
  {
    const auto copy = ab->clone();
    copy->prepare();
  }  // waits for its thread
  EXPECT_FALSE(ab->needs_search());
  const auto alone = mask("root ::= \"a\" [b-y]{2,9} [0-9]");
  ASSERT_OK(alone->accept(first.ids[0]));
  ASSERT_OK_AND_ASSIGN(const auto searched, alone->allowed());
  ASSERT_OK_AND_ASSIGN(const auto prepared, ab->allowed());
  EXPECT_TRUE(std::ranges::equal(prepared.ids, searched.ids));
  EXPECT_TRUE(std::ranges::equal(prepared.words, searched.words));
}

/// Allows any token but those that end a text, and notes the calls.
class NotingMask final : public sample::TokenMask {
 public:
  NotingMask(int64_t n_tokens, std::string& calls) : calls_(calls) {
    for (int32_t id = 5; id < n_tokens; ++id) ids_.push_back(id);
  }
  Result<Allowed> allowed() override {
    calls_ += 'm';
    return Allowed{.ids = ids_};
  }
  void prepare() override { calls_ += 'p'; }
  bool is_finished() const override { return false; }
  std::vector<int32_t> forced() override { return {}; }
  Result<> accept(int32_t) override {
    calls_ += 'a';
    return {};
  }
  void reset() override {}
  std::unique_ptr<TokenMask> clone() const override { return nullptr; }

 private:
  std::vector<int32_t> ids_;
  std::string& calls_;
};

TEST_F(GrammarMaskTest, MasksArePreparedBeforeForwardPasses) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, {.n_ctx = 64, .n_ubatch = 64}));
  ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 3}, sampling_vocab(engine_), 64));
  std::string calls;
  chain->constrain(std::make_unique<NotingMask>(engine_->model().info().n_vocab, calls));
  Generator generator(*session, *chain, 0, {.ignore_end = true});
  ASSERT_OK(generator.start(token_ids(*engine_, 5), nullptr));
  session->observe_steps([&](const StepView&) { calls += 's'; });
  for (int i = 0; i < 3; ++i) ASSERT_OK(generator.next(nullptr));
  session->observe_steps({});
  EXPECT_EQ(calls, "mapsmapsma");
}

TEST_F(GrammarMaskTest, AFullContextEndsForcedText) {
  ASSERT_OK_AND_ASSIGN(const Generated made, generate("root ::= (\"abcdefghij \"){50} \"!\"", {}, 32));
  EXPECT_EQ(made.stop, StopReason::context_full);
  ASSERT_OK_AND_ASSIGN(const Generated few, generate("root ::= (\"abcdefghij \"){50} \"!\"", {.n_predict = 7}));
  EXPECT_EQ(few.tokens.size(), 7u);
  EXPECT_EQ(few.stop, StopReason::n_predict);
  ASSERT_OK_AND_ASSIGN(const Generated shifted,
                       generate("root ::= (\"abcdefghij \"){20} \"!\"", {.context_shift = true}, 64));
  EXPECT_EQ(shifted.text.size(), 221u);
}

}  // namespace
}  // namespace tessera
