// DeepSeek V4. The logits are compared with the formulas in double precision, and have the same bits for any batching
// of the tokens. Sequences can be copied, cut at their end, saved and restored.
#include "tests/support/deepseek4_model.h"

namespace tessera::testing::deepseek4 {
namespace {

void expect_deepseek4_formula(const Rules& rules) {
  TinyModel m = random_model(rules);
  const auto formula = [&](const TinyModel&, std::span<const int32_t> tokens) {
    return logits_by_formula(m, rules, tokens);
  };
  check(m, formula, 1e-11, kVocab, kPrompt);
}

TEST(DeepSeek4, SeesOnlyAWindowWithoutEntries) { expect_deepseek4_formula({.ratios = {0, 0}}); }

TEST(DeepSeek4, ChoosesAmongEntriesOfFourTokens) { expect_deepseek4_formula({.ratios = {4, 4}}); }

TEST(DeepSeek4, SeesAllEntriesOf128Tokens) { expect_deepseek4_formula({.ratios = {128, 0, 128}}); }

TEST(DeepSeek4, MixesLayersOfAllKinds) { expect_deepseek4_formula({.ratios = {0, 4, 128, 4}, .n_hashed = 2}); }

TEST(DeepSeek4, AllLayersMayTakeExpertsFromATable) {
  expect_deepseek4_formula({.ratios = {4, 0}, .n_hashed = 2, .is_flat = true});
}

Result<std::shared_ptr<const Engine>> load_changed_deepseek4(const std::function<void(TinyModel&)>& change) {
  TinyModel m = random_model({.ratios = {4, 128}});
  change(m);
  return load_engine(m.write("deepseek4.gguf"));
}

TEST(DeepSeek4, RefusesKeysThatDoNotFit) {
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) {
                 m.keys("attention.compress_ratios", {4, 8});
               }),
               "key 'deepseek4.attention.compress_ratios': 8, want 0, 4 or 128");
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) { m.keys("attention.compress_ratios", {4}); }),
               "key 'deepseek4.attention.compress_ratios' has 1 elements for 2 layers");
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) { m.key("attention.head_count_kv", 2); }),
               "4 heads and 2 KV heads: want 1 KV head");
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) { m.key("attention.output_group_count", 3); }),
               "want 1 KV head, and a multiple of 3");
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) { m.key("hyper_connection.count", 17); }),
               "key 'deepseek4.hyper_connection.count': 17");
  EXPECT_ERROR(load_changed_deepseek4([](TinyModel& m) { m.key("attention.sliding_window", 0); }),
               "key 'deepseek4.attention.sliding_window': 0");
}

// The array may go on for the blocks of prediction heads.
TEST(DeepSeek4, TakesMoreRatiosThanLayers) {
  EXPECT_OK(load_changed_deepseek4([](TinyModel& m) { m.keys("attention.compress_ratios", {4, 128, 0}); }));
}

TEST(DeepSeek4, RefusesAnExpertThatDoesNotExist) {
  TinyModel m = random_model({.ratios = {0}, .n_hashed = 1});
  std::vector<int32_t>& ids = m.integers.begin()->second;
  ids[2 * kNUsed] = static_cast<int32_t>(kNExperts);  // of token 2
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(m.write("bad_expert.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .threads = {.n_threads = 1}}));
  EXPECT_OK(session->decode(Batch::prompt(std::vector<int32_t>{1}, 0, 0)));
  EXPECT_ERROR(session->decode(Batch::prompt(std::vector<int32_t>{2}, 1, 0)), "4");
}

// --- sequences

class DeepSeek4Sequences : public ::testing::Test {
 protected:
  static constexpr int32_t kLength = 150, kMore = 9;

  void SetUp() override {
    TinyModel m = random_model({.ratios = {4, 128, 0}, .n_hashed = 1});
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(m.write("sequences.gguf")));
    tokens_ = token_ids(*engine_, kLength + kMore);
    session_ = open();
    ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens_).first(kLength), 0, 0)));
    expected_ = continued(*session_, 0);
  }

  std::unique_ptr<Session> open(DType type = DType::f16) {
    auto session = Session::create(engine_, {.n_ctx = 1024,
                                             .n_ubatch = 64,
                                             .n_sequences = 3,
                                             .n_outputs = kMore,
                                             .type_k = type,
                                             .type_v = type,
                                             .threads = {.n_threads = 2}});
    EXPECT_OK(session);
    return std::move(*session);
  }

  /// The logits of the last tokens after the first ones.
  std::vector<float> continued(Session& session, int32_t sequence) {
    Batch batch;
    for (int32_t p = kLength; p < kLength + kMore; ++p)
      batch.add({.token = tokens_[static_cast<size_t>(p)], .position = p, .sequence = sequence, .wants_logits = true});
    EXPECT_OK(session.decode(batch));
    return all_rows(session);
  }

  std::shared_ptr<const Engine> engine_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<Session> session_;
  std::vector<float> expected_;
};

TEST_F(DeepSeek4Sequences, CanBeCutAtTheEndAndContinued) {
  for (const int32_t end : {kLength, kLength - 1, kLength - 22, kLength - 23, 127}) {  // entries end at 127
    ASSERT_OK(session_->remove(0, end, 1024));
    if (end < kLength)
      ASSERT_OK(session_->decode(Batch::prompt(
          std::span(tokens_).subspan(static_cast<size_t>(end), static_cast<size_t>(kLength - end)), end, 0)));
    EXPECT_TRUE(same_bits(continued(*session_, 0), expected_)) << end;
  }
}

TEST_F(DeepSeek4Sequences, CanBeCopied) {
  ASSERT_OK(session_->copy(0, 1, 0, kLength));
  EXPECT_TRUE(same_bits(continued(*session_, 1), expected_));
  ASSERT_OK(session_->remove(0, 0, 1024));
  ASSERT_OK(session_->remove(1, kLength, 1024));
  EXPECT_TRUE(same_bits(continued(*session_, 1), expected_));
}

TEST_F(DeepSeek4Sequences, RefuseWhatEntriesCannotDo) {
  EXPECT_ERROR(session_->remove(0, 8, 16), "entries");
  EXPECT_ERROR(session_->copy(0, 1, 8, 16), "entries");
  EXPECT_ERROR(session_->shift(0, 0, 1024, 1), "shift");
  EXPECT_ERROR(session_->require_shiftable(), "entries");
}

TEST_F(DeepSeek4Sequences, CanBeSavedAndRestored) {
  ASSERT_OK(session_->remove(0, kLength, 1024));
  ASSERT_OK_AND_ASSIGN(const auto saved, session_->save_state(0));
  const auto other = open();
  ASSERT_OK(other->restore_state(2, saved));
  EXPECT_TRUE(same_bits(continued(*other, 2), expected_));
}

TEST_F(DeepSeek4Sequences, FailedBatchesLeaveNoTrace) {
  ASSERT_OK(session_->remove(0, kLength, 1024));
  Batch batch;
  for (int32_t p = kLength; p < kLength + 20; ++p) batch.add({.token = 1, .position = p, .sequence = 0});
  batch.add({.token = 1, .position = kLength + 30, .sequence = 0});  // a gap
  EXPECT_FALSE(session_->decode(batch).has_value());
  EXPECT_TRUE(same_bits(continued(*session_, 0), expected_));
}

TEST_F(DeepSeek4Sequences, AgreeForOtherTypesOfTheCache) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto session = open(type);
    ASSERT_OK(session->decode(Batch::prompt(std::span(tokens_).first(kLength), 0, 0)));
    const std::vector<float> logits = continued(*session, 0);
    double error = 0, power = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      error += (double{logits[i]} - expected_[i]) * (double{logits[i]} - expected_[i]);
      power += double{expected_[i]} * expected_[i];
    }
    EXPECT_LT(error / power, 1e-2) << static_cast<int>(type);
    EXPECT_GT(error, 0) << static_cast<int>(type);
  }
}

}  // namespace
}  // namespace tessera::testing::deepseek4
