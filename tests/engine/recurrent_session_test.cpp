// Sessions of recurrent and hybrid models. After every operation on a sequence, later logits have the bits of a text
// that was decoded at once. Operations that a state does not support are refused without changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int32_t kRecurrentTokens = 60;

class RecurrentSession : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(arch_model(GetParam())));
    tokens_ = token_ids(*engine_, kRecurrentTokens);
    ASSERT_OK_AND_ASSIGN(session_, open(7));
    ASSERT_OK_AND_ASSIGN(expected_, logits_of(*session_, tokens_));
    ASSERT_OK(session_->clear());
  }

  Result<std::unique_ptr<Session>> open(int64_t n_ubatch, int32_t n_checkpoints = 2) const {
    return Session::create(engine_, {.n_ctx = 128,
                                     .n_ubatch = n_ubatch,
                                     .n_sequences = 3,
                                     .n_outputs = kRecurrentTokens,
                                     .n_checkpoints = n_checkpoints,
                                     .threads = {.n_threads = 2}});
  }
  std::span<const int32_t> tokens(int32_t begin, int32_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  Result<> decode(int32_t begin, int32_t end, int32_t sequence = 0) {
    return session_->decode(all_logits(tokens(begin, end), begin, sequence));
  }
  /// Decodes the tokens and compares their logits.
  void expect_continues(int32_t begin, int32_t end, int32_t sequence = 0) {
    ASSERT_OK(decode(begin, end, sequence));
    const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
    EXPECT_TRUE(
        same_bits(all_rows(*session_), std::span(expected_).subspan(static_cast<size_t>(begin) * n_vocab,
                                                                    static_cast<size_t>(end - begin) * n_vocab)));
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

INSTANTIATE_TEST_SUITE_P(Models, RecurrentSession, ::testing::Values("mamba-dense", "mamba2-dense", "lfm2-dense"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(RecurrentSession, AnErrorLeavesTheStateAsItWas) {
  ASSERT_OK(decode(0, 20));
  // The third micro-batch of seven tokens is refused.
  Batch batch = all_logits(tokens(20, 40), 20);
  batch.add({.token = 1, .position = 45});
  EXPECT_ERROR(session_->decode(batch), "position 45 of sequence 0 after 39");
  EXPECT_EQ(session_->max_position(0), 19);
  expect_continues(20, 40);
}

TEST_P(RecurrentSession, ABatchCancelledBetweenMicroBatchesLeavesTheStateAsItWas) {
  CancelToken cancel;
  bool wants_cancel = false;
  SessionOptions options = session_->options();
  options.observer = [&](std::string_view, std::span<const float>, int64_t) {  // after each micro-batch
    if (wants_cancel) cancel.cancel();
  };
  ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, options));
  ASSERT_OK(decode(0, 20));
  wants_cancel = true;
  const auto done = session_->decode(all_logits(tokens(20, 55), 20), &cancel);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(session_->max_position(0), 19);
  expect_continues(20, 60);
}

// Cancels at random points of a graph. A cancellation may also come too late.
TEST_P(RecurrentSession, ABatchCancelledAtAnyTimeLeavesTheStateAsItWas) {
  ASSERT_OK(decode(0, 20));
  for (int delay_us = 0; delay_us < 2000; delay_us += 100) {
    CancelToken cancel;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      cancel.cancel();
    });
    const auto done = session_->decode(all_logits(tokens(20, 55), 20), &cancel);
    canceller.join();
    if (done) {  // removing the whole sequence is the only possible rollback
      ASSERT_OK(session_->remove(0, 0, 128));
      ASSERT_OK(decode(0, 20));
      continue;
    }
    ASSERT_EQ(done.error().code(), ErrorCode::cancelled);
    ASSERT_EQ(session_->max_position(0), 19);
  }
  expect_continues(20, 60);
}

TEST_P(RecurrentSession, CopiesDiverge) {
  ASSERT_OK(decode(0, 30));
  ASSERT_OK(session_->copy(0, 1, 0, 30));
  ASSERT_OK(session_->copy(0, 2, 0, 128));
  ASSERT_OK(session_->decode(all_logits(token_ids(*engine_, 10, 9), 30, 0)));
  expect_continues(30, 45, 1);
  ASSERT_OK(session_->remove(0, 0, 128));
  expect_continues(45, 50, 1);
  expect_continues(30, 50, 2);
  EXPECT_ERROR(session_->copy(1, 0, 0, 20), "copied whole");
  EXPECT_ERROR(session_->copy(1, 2, 0, 128), "sequence 2 has a state already");
  EXPECT_EQ(session_->max_position(0), std::nullopt);
}

TEST_P(RecurrentSession, GoesBackToCheckpointsOnly) {
  ASSERT_OK(decode(0, 25));
  ASSERT_OK(session_->checkpoint(0));
  ASSERT_OK(session_->decode(all_logits(token_ids(*engine_, 10, 9), 25, 0)));
  EXPECT_ERROR(session_->remove(0, 30, 128), "cannot go back but to a checkpoint (the last one is at 25)");
  EXPECT_ERROR(session_->remove(0, 3, 10), "cannot forget a part but its end");
  EXPECT_EQ(session_->max_position(0), 34);
  EXPECT_EQ(session_->min_position(0), 34);
  EXPECT_EQ(session_->lowest_rollback(0), 35);
  ASSERT_OK(session_->remove(0, 25, 128));
  EXPECT_EQ(session_->max_position(0), 24);
  expect_continues(25, 40);
  ASSERT_OK(session_->remove(0, 25, 40));  // the checkpoint still exists
  expect_continues(25, 60);
  ASSERT_OK(session_->checkpoint(0));
  ASSERT_OK(session_->drop_checkpoints(0));
  EXPECT_ERROR(session_->remove(0, 25, 128), "(there is none)");
}

TEST_P(RecurrentSession, CheckpointsAreLimitedByTheOptions) {
  ASSERT_OK_AND_ASSIGN(session_, open(7, 0));
  EXPECT_ERROR(session_->checkpoint(0), "sequence 0 has no state");
  ASSERT_OK(decode(0, 5));
  EXPECT_ERROR(session_->checkpoint(0), "all 0 checkpoints are taken");
}

TEST_P(RecurrentSession, ASavedStateIsRestored) {
  ASSERT_OK(decode(0, 30));
  ASSERT_OK_AND_ASSIGN(const auto state, session_->save_state(0));
  ASSERT_OK_AND_ASSIGN(session_, open(64));
  ASSERT_OK(session_->decode(all_logits(token_ids(*engine_, 10, 9), 0, 1)));  // replaces the sequence
  ASSERT_OK(session_->restore_state(1, state));
  EXPECT_EQ(session_->max_position(1), 29);
  ASSERT_OK_AND_ASSIGN(const auto again, session_->save_state(1));
  EXPECT_EQ(again, state);
  expect_continues(30, 60, 1);
  ASSERT_OK_AND_ASSIGN(const auto empty, session_->save_state(2));
  ASSERT_OK(session_->restore_state(1, empty));
  EXPECT_EQ(session_->max_position(1), std::nullopt);
  expect_continues(0, 10, 1);
}

TEST_P(RecurrentSession, DamagedStatesAreRefused) {
  ASSERT_OK(decode(0, 3));
  ASSERT_OK_AND_ASSIGN(const auto state, session_->save_state(0));
  for (size_t i = 0; i < state.size(); i += 61) {
    std::vector<std::byte> damaged = state;
    damaged[i] ^= std::byte{1};
    ASSERT_FALSE(session_->restore_state(0, damaged).has_value()) << "byte " << i;
    ASSERT_FALSE(session_->restore_state(0, std::span(state).first(i)).has_value()) << i << " bytes";
  }
  expect_continues(3, 10);
}

TEST_P(RecurrentSession, ShiftsMoveAllPositionsOrNone) {
  ASSERT_OK(decode(0, 20));
  EXPECT_ERROR(session_->shift(0, 10, 20, 5), "shifted whole");
  EXPECT_ERROR(session_->shift(0, 0, 20, 120), "would leave");
  EXPECT_EQ(session_->max_position(0), 19);
  ASSERT_OK(session_->shift(0, 0, 20, 5));
  EXPECT_EQ(session_->max_position(0), 24);
  EXPECT_ERROR(decode(26, 27), "position 26 of sequence 0 after 24");
  ASSERT_OK(session_->shift(0, 0, 128, -5));
  EXPECT_EQ(session_->max_position(0), 19);
}

TEST_P(RecurrentSession, KeepAndClearForgetStates) {
  for (const int32_t s : {0, 1, 2}) ASSERT_OK(decode(0, 10, s));
  ASSERT_OK(session_->keep(1));
  expect_continues(10, 20, 1);
  expect_continues(0, 20, 0);
  ASSERT_OK(session_->clear());
  for (const int32_t s : {0, 1, 2}) expect_continues(0, 5, s);
}

TEST_P(RecurrentSession, ThePlanIsWhatIsAllocated) {
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, session_->options()));
  const MemoryReport allocated = session_->allocated_memory();
  ASSERT_EQ(plan.parts.size(), allocated.parts.size());
  for (size_t i = 0; i < plan.parts.size(); ++i) EXPECT_EQ(plan.parts[i].bytes, allocated.parts[i].bytes) << i;
  // Two slots per sequence and one per checkpoint.
  const auto states = [&](int32_t n_sequences, int32_t n_checkpoints) {
    SessionOptions options = session_->options();
    options.n_sequences = n_sequences;
    options.n_checkpoints = n_checkpoints;
    const auto report = Session::plan(*engine_, options).value();
    return report.parts.at(report.parts.size() - 3).bytes;
  };
  EXPECT_EQ(states(1, 2), 2 * states(1, 0));
  EXPECT_EQ(states(4, 0), 4 * states(1, 0));
}

TEST_P(RecurrentSession, TokensOutOfOrderAreRefused) {
  Batch batch;
  for (const int32_t p : {0, 2, 1}) batch.add({.token = 1, .position = p});
  EXPECT_ERROR(session_->decode(batch), "position 2 of sequence 0 after 0: a recurrent model takes");
  EXPECT_EQ(session_->max_position(0), std::nullopt);
  expect_continues(0, 10);
}

// Keys of recurrent layers with values over their range: an error that names the file and the key, or a model that
// decodes.
TEST(RecurrentKeys, OverTheirRange) {
  for (const auto& [model, keys] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"mamba", {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"}},
           {"mamba2", {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count"}},
           {"lfm2", {"shortconv.l_cache"}}}) {
    const std::string path = arch_model(model + "-dense");
    ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
    for (const std::string& key : keys) {
      const std::string full = model + "." + key;
      const auto open_with = [&](const auto& value) {
        EditableModel edited(path);
        edited.builder.set(full, value);
        return Engine::open(*registry, edited.write("swept.gguf"), EngineOptions());
      };
      for (const uint32_t value : {1u, 2u, 3u, 5u, 31u, 33u, 4096u, 1u << 20}) {
        SCOPED_TRACE(full + " = " + std::to_string(value));
        const auto engine = open_with(value);
        if (engine) continue;
        EXPECT_NE(engine.error().message().find("swept.gguf"), std::string::npos) << engine.error().message();
      }
      for (const uint32_t value : {0u, (1u << 20) + 1, 1u << 31, ~0u})
        EXPECT_ERROR(open_with(value), "'" + full + "': ");
      EXPECT_ERROR(open_with(~uint64_t{0}), "'" + full + "': ");
      EXPECT_ERROR(open_with(std::numeric_limits<float>::quiet_NaN()), "'" + full + "': ");
      EditableModel missing(path);
      missing.builder.remove(full);
      EXPECT_ERROR(Engine::open(*registry, missing.write("swept.gguf"), {}), full);
    }
  }
}

}  // namespace
}  // namespace tessera
