// Saved states of a sequence: round trips, and refusal of damaged or foreign states.
#include <gtest/gtest.h>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class StateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, options_));
    ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 3), 0, 0)));
    ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 5, 2), 0, 1)));
    ASSERT_OK_AND_ASSIGN(state_, session_->save_state(0));
    ASSERT_OK_AND_ASSIGN(other_, session_->save_state(1));
  }

  /// Checks that sequence 1 is unchanged.
  void expect_unchanged() {
    ASSERT_OK_AND_ASSIGN(const auto now, session_->save_state(1));
    EXPECT_EQ(now, other_);
  }

  SessionOptions options_{.n_ctx = 128, .n_sequences = 2};
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<std::byte> state_, other_;
};

TEST_F(StateTest, RestoreReplacesTheSequence) {
  ASSERT_OK(session_->restore_state(1, state_));
  ASSERT_OK_AND_ASSIGN(const auto now, session_->save_state(1));
  EXPECT_EQ(now, state_);
  EXPECT_EQ(session_->max_position(1), 2);
}

TEST_F(StateTest, EveryFlippedBitIsRefused) {
  for (size_t i = 0; i < state_.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = state_;
      damaged[i] ^= std::byte{1} << bit;
      ASSERT_FALSE(session_->restore_state(1, damaged).has_value()) << "byte " << i << " bit " << bit;
    }
  expect_unchanged();
}

TEST_F(StateTest, EveryTruncationIsRefused) {
  for (size_t n = 0; n < state_.size(); ++n)
    ASSERT_FALSE(session_->restore_state(1, std::span(state_).first(n)).has_value()) << n << " bytes";
  expect_unchanged();
}

TEST_F(StateTest, BytesAtTheEndAreRefused) {
  state_.push_back(std::byte{0});
  EXPECT_ERROR(session_->restore_state(1, state_), "checksum");
  expect_unchanged();
}

TEST_F(StateTest, AnEmptySequenceRestoresAsEmpty) {
  ASSERT_OK(session_->remove(0, 0, 128));
  ASSERT_OK_AND_ASSIGN(const auto empty, session_->save_state(0));
  ASSERT_OK(session_->restore_state(1, empty));
  EXPECT_EQ(session_->max_position(1), std::nullopt);
}

TEST_F(StateTest, AnotherModelIsRefused) {
  const std::string path = arch_model("llama-dense");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options_));
  const auto restored = session->restore_state(0, state_);
  EXPECT_ERROR(restored, "saved from another model");
  EXPECT_EQ(restored.error().code(), ErrorCode::mismatch);
}

TEST_F(StateTest, OtherRopeSettingsAreAnotherModel) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path, {.rope = {.freq_base = 20000.0f}}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options_));
  EXPECT_ERROR(session->restore_state(0, state_), "saved from another model");
}

TEST_F(StateTest, OtherCacheTypesAreRefused) {
  for (const bool is_k : {true, false}) {
    SessionOptions options = options_;
    (is_k ? options.type_k : options.type_v) = DType::f32;
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
    EXPECT_ERROR(session->restore_state(0, state_), "saved with cache types");
  }
}

TEST_F(StateTest, WhatDoesNotFitIsRefusedAndNothingIsLost) {
  ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 100), 3, 0)));
  ASSERT_OK_AND_ASSIGN(const auto large, session_->save_state(0));  // 103 positions
  ASSERT_OK_AND_ASSIGN(const auto small, Session::create(engine_, {.n_ctx = 64, .n_sequences = 2}));
  EXPECT_ERROR(small->restore_state(0, large), "position 64 of sequence 0");
  EXPECT_ERROR(session_->restore_state(1, large), "the KV cache is full");  // sequence 0 has two of the three blocks
  expect_unchanged();
  EXPECT_ERROR(session_->restore_state(2, state_), "sequence 2");
  EXPECT_ERROR(session_->save_state(2), "sequence 2");
}

TEST_F(StateTest, RestoringOverItselfNeedsNoFreeBlock) {
  ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 100), 3, 0)));
  ASSERT_OK_AND_ASSIGN(const auto large, session_->save_state(0));
  ASSERT_OK(session_->restore_state(0, large));
  ASSERT_OK_AND_ASSIGN(const auto now, session_->save_state(0));
  EXPECT_EQ(now, large);
}

}  // namespace
}  // namespace tessera
