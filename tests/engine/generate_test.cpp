// The generator: golden greedy texts, a full context, context shifts, cancellation, and refusals.
#include "tessera/engine/generate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model())); }

  Result<> open(int64_t n_ctx, const GenerateOptions& options) {
    TESSERA_ASSIGN(session_, Session::create(engine_, {.n_ctx = n_ctx, .n_ubatch = 64}));
    TESSERA_ASSIGN(chain_,
                   sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), static_cast<int32_t>(n_ctx)));
    generator_.emplace(*session_, *chain_, 0, options);
    return {};
  }

  Result<std::vector<int32_t>> all_tokens() {
    std::vector<int32_t> ids;
    while (true) {
      TESSERA_ASSIGN(const int32_t id, generator_->next(nullptr));
      if (generator_->stop_reason() != StopReason::none) return ids;
      ids.push_back(id);
    }
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<sample::Chain> chain_;
  std::optional<Generator> generator_;
};

TEST_F(GenerateTest, GreedyTextsAreTheGoldenOnes) {
  const auto golden = nlohmann::json::parse(read_all(data_path("greedy.json")));
  TESSERA_SHARED_OR_SKIP(path, golden["model"].get<std::string>());
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
  for (const auto& run : golden["runs"]) {
    const auto prompt = run["result"]["prompt_ids"].get<std::vector<int32_t>>();
    const auto expected = run["result"]["ids"].get<std::vector<int32_t>>();
    ASSERT_OK(open(512, {.n_predict = static_cast<int64_t>(expected.size()), .n_batch = 3}));
    ASSERT_OK(generator_->start(prompt, nullptr));
    ASSERT_OK_AND_ASSIGN(const auto ids, all_tokens());
    EXPECT_EQ(ids, expected) << run["prompt"];
    EXPECT_EQ(generator_->stop_reason(), StopReason::n_predict);
    EXPECT_EQ(generator_->n_generated(), static_cast<int64_t>(expected.size()));
  }
}

// The texts of llama.cpp's server, which its tests expect (test_completion.py, test_chat_completion.py), with its
// default sampling and the seed 42.
TEST_F(GenerateTest, SeededTextsAreThoseOfLlamaCpp) {
  TESSERA_SHARED_OR_SKIP(path, "models/stories260K.gguf");
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
  const auto chatml = [](const std::string& user) {
    return "<|im_start|>system\nBook<|im_end|>\n<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n";
  };
  const std::pair<std::string, std::string> texts[] = {
      {"I believe the meaning of life is", " going to bed. I"},
      {"This is not a chat template, it is", " blue and shin"},
      {chatml("Hey"), "But she couldn't"},
      {chatml("What is the best book"), "Suddenly."},
      {chatml("What is\nthe best book"), "Whillicter"},
  };
  for (const auto& [prompt, expected] : texts) {
    ASSERT_OK(open(256, {.n_predict = 8}));
    ASSERT_OK_AND_ASSIGN(chain_, sample::Chain::create({.seed = 42}, sampling_vocab(engine_), 256));
    generator_.emplace(*session_, *chain_, 0, GenerateOptions{.n_predict = 8});
    ASSERT_OK_AND_ASSIGN(const auto tokens, engine_->tokenizer().tokenize(prompt, {.add_special = true}));
    ASSERT_OK(generator_->start(tokens, nullptr));
    ASSERT_OK_AND_ASSIGN(const auto ids, all_tokens());
    std::string text;
    for (const int32_t id : ids) engine_->tokenizer().append_piece(id, text);
    EXPECT_EQ(text, expected) << prompt;
  }
}

TEST_F(GenerateTest, StopsWhereTheContextIsFull) {
  ASSERT_OK(open(64, {.ignore_end = true}));
  ASSERT_OK(generator_->start(token_ids(*engine_, 5), nullptr));
  ASSERT_OK_AND_ASSIGN(const auto ids, all_tokens());
  EXPECT_EQ(generator_->stop_reason(), StopReason::context_full);
  EXPECT_EQ(ids.size(), 64u - 5 + 1);  // the last token is chosen, but the context has no position for it
  EXPECT_EQ(session_->max_position(0), 63);
  EXPECT_EQ(*generator_->next(nullptr), -1);  // the generator stays stopped
}

TEST_F(GenerateTest, APromptMayFillTheContext) {
  ASSERT_OK(open(64, {.ignore_end = true}));
  ASSERT_OK(generator_->start(token_ids(*engine_, 64), nullptr));
  ASSERT_OK_AND_ASSIGN(const auto ids, all_tokens());
  EXPECT_EQ(ids.size(), 1u);
}

TEST_F(GenerateTest, ContextShiftGoesOnForEver) {
  for (const auto& [n_ctx, n_keep] :
       {std::pair<int64_t, int64_t>{64, 0}, {64, 3}, {64, -1}, {100, 1}, {2, 0}, {2, -1}, {1, 0}}) {
    ASSERT_OK(open(n_ctx, {.n_predict = 200, .ignore_end = true, .context_shift = true, .n_keep = n_keep}));
    const auto prompt = token_ids(*engine_, std::min<int64_t>(n_ctx, 5));
    ASSERT_OK(generator_->start(prompt, nullptr));
    const auto ids = all_tokens();
    ASSERT_TRUE(ids.has_value()) << n_ctx << ", keep " << n_keep << ": " << ids.error().message();
    EXPECT_EQ(ids->size(), 200u) << n_ctx << ", keep " << n_keep;
    EXPECT_LT(session_->max_position(0), n_ctx);
    EXPECT_EQ(session_->min_position(0), 0);
    // Positions have no gaps: the kept tokens, then the shifted ones.
    EXPECT_EQ(static_cast<int32_t>(session_->cache().cells(0)->positions.size()), *session_->max_position(0) + 1);
  }
}

TEST_F(GenerateTest, RefusesPromptsThatAreEmptyOrTooLong) {
  ASSERT_OK(open(64, {}));
  EXPECT_ERROR(generator_->start({}, nullptr), "no tokens");
  EXPECT_ERROR(generator_->start(token_ids(*engine_, 65), nullptr), "the prompt has 65 tokens, the context holds 64");
}

TEST_F(GenerateTest, RefusesModelsThatComputeAWholeTextAtOnce) {
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(arch_model("dream-dense")));
  ASSERT_OK(open(64, {}));
  EXPECT_ERROR(generator_->start(std::vector<int32_t>{1, 2}, nullptr), "dream: this model computes a whole text");
}

TEST_F(GenerateTest, NothingIsGeneratedWhereNothingIsWanted) {
  ASSERT_OK(open(64, {.n_predict = 0}));
  ASSERT_OK(generator_->start(std::vector<int32_t>{1}, nullptr));
  EXPECT_EQ(*generator_->next(nullptr), -1);
  EXPECT_EQ(generator_->stop_reason(), StopReason::n_predict);
}

TEST_F(GenerateTest, GoesOnAfterACancelledStep) {
  ASSERT_OK(open(64, {.n_predict = 20, .ignore_end = true}));
  const std::vector<int32_t> prompt = text_ids(*engine_, "Once upon a time");
  ASSERT_OK(generator_->start(prompt, nullptr));
  ASSERT_OK_AND_ASSIGN(const auto expected, all_tokens());
  ASSERT_OK(open(64, {.n_predict = 20, .ignore_end = true}));
  ASSERT_OK(generator_->start(prompt, nullptr));
  CancelToken cancel;
  cancel.cancel();
  std::vector<int32_t> ids{*generator_->next(nullptr)};
  EXPECT_ERROR(generator_->next(&cancel), "cancelled");
  ASSERT_OK_AND_ASSIGN(const auto rest, all_tokens());
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace tessera
