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

// --- single blocks

TEST_F(StateTest, ABlockContinuesAnotherSequenceWithTheSameBits) {
  const auto tokens = token_ids(*engine_, 100);
  for (const int64_t n_ubatch : {512, 24}) {
    SessionOptions options{
        .n_ctx = 256, .n_ubatch = n_ubatch, .n_sequences = 2, .n_outputs = 100, .n_cache_tokens = 64};
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
    ASSERT_OK_AND_ASSIGN(const auto whole, logits_of(*session, tokens));
    ASSERT_OK_AND_ASSIGN(const int32_t block, session->retain_block(0, 0));
    ASSERT_OK_AND_ASSIGN(const auto saved, session->save_block(block));
    ASSERT_OK_AND_ASSIGN(const size_t n_bytes, session->saved_block_bytes());
    EXPECT_EQ(saved.size(), n_bytes);
    session->release_block(block);
    ASSERT_OK(session->clear());
    ASSERT_OK(session->append_block(1, saved));
    EXPECT_EQ(session->max_position(1), 63);
    Batch rest = Batch::prompt(std::span(tokens).subspan(64), 64, 1);
    ASSERT_OK(session->decode(rest));
    const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
    EXPECT_TRUE(std::ranges::equal(session->logits(0), std::span(whole).last(n_vocab)));
  }
}

TEST_F(StateTest, BlocksThatDoNotFitAreRefused) {
  ASSERT_OK_AND_ASSIGN(const size_t n_bytes, session_->saved_block_bytes());
  std::vector<std::byte> saved(n_bytes);
  EXPECT_ERROR(session_->append_block(1, saved), "sequence 1 ends at 5, want a multiple of 64");
  EXPECT_ERROR(session_->append_block(5, saved), "sequence 5");
  EXPECT_ERROR(session_->save_block(0), "not retained");
  EXPECT_ERROR(session_->save_block(-1), "not retained");
  expect_unchanged();
  ASSERT_OK(session_->remove(1, 0, 128));
  EXPECT_ERROR(session_->append_block(1, std::span(saved).first(n_bytes - 1)), "bytes, want");
  ASSERT_OK(session_->append_block(1, saved));
  ASSERT_OK(session_->append_block(1, saved));
  EXPECT_ERROR(session_->append_block(1, saved), "position 128");
  EXPECT_EQ(session_->max_position(1), 127);
}

TEST_F(StateTest, ModelsWithWindowsHaveNoWholeBlocks) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("gemma3-dense")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options_));
  EXPECT_ERROR(session->saved_block_bytes(), "sliding windows");
}

}  // namespace
}  // namespace tessera
