// Sessions: refused and cancelled batches leave the cache as before, options are checked, and positions shift.
#include "tessera/engine/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/engine/generate.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path_));
    tokens_ = token_ids(*engine_, 100);
  }
  Result<std::unique_ptr<Session>> open(const SessionOptions& options) const {
    return Session::create(engine_, options);
  }

  std::string path_;
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
};

// --- errors leave the cache as it was

TEST_F(SessionTest, ARefusedBatchLeavesNothingOfItself) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 128, .n_ubatch = 4, .n_sequences = 2, .n_outputs = 3}));
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens_).first(20), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto before, session->save_state(0));
  const auto refused = [&](BatchToken last, const char* why) {
    Batch batch = Batch::prompt(std::span(tokens_).first(10), 20, 0);  // two whole micro-batches and a half
    batch.add(last);
    const auto done = session->decode(batch);
    EXPECT_ERROR(done, why);
    EXPECT_EQ(session->n_outputs(), 0);
    ASSERT_OK_AND_ASSIGN(const auto after, session->save_state(0));
    EXPECT_EQ(after, before) << why;
  };
  refused({.token = -1, .position = 30}, "token -1 at position 30, want 0 to 511");
  refused({.token = 512, .position = 30}, "token 512 at position 30, want 0 to 511");
  refused({.position = 128}, "position 128 of sequence 0, want 0 to 127");
  refused({.position = -1}, "position -1");
  refused({.position = 25}, "position 25 of sequence 0 is stored already");
  refused({.position = 5}, "position 5 of sequence 0 is stored already");
  refused({.position = 30, .sequence = 2}, "sequence 2, want 0 to 1");
  EXPECT_OK(session->decode(Batch::prompt(std::span(tokens_).first(10), 20, 0)));
}

TEST_F(SessionTest, RefusesMoreOutputsThanItHasRoomFor) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 128, .n_outputs = 3}));
  EXPECT_ERROR(session->decode(all_logits(std::span(tokens_).first(4))),
               "logits wanted for 4 tokens, the session has room for 3");
  EXPECT_OK(session->decode(all_logits(std::span(tokens_).first(3))));
}

TEST_F(SessionTest, AFullCacheLeavesTheSessionUsable) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 128, .n_ubatch = 16, .n_sequences = 2}));  // three blocks
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  const auto full = session->decode(Batch::prompt(tokens_, 0, 1));
  EXPECT_ERROR(full, "the KV cache is full");
  EXPECT_EQ(full.error().code(), ErrorCode::limit);
  EXPECT_EQ(session->max_position(1), std::nullopt);
  EXPECT_EQ(session->max_position(0), 99);
  EXPECT_OK(session->decode(Batch::prompt(std::span(tokens_).first(64), 0, 1)));
}

TEST_F(SessionTest, ACancelledDecodeLeavesTheCacheAsBefore) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 128, .n_ubatch = 8}));
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens_).first(20), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto before, session->save_state(0));
  CancelToken cancel;
  cancel.cancel();
  const auto done = session->decode(Batch::prompt(std::span(tokens_).subspan(20, 50), 20, 0), &cancel);
  EXPECT_ERROR(done, "cancelled");
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  ASSERT_OK_AND_ASSIGN(const auto after, session->save_state(0));
  EXPECT_EQ(after, before);
  cancel.reset();
  EXPECT_OK(session->decode(Batch::prompt(std::span(tokens_).subspan(20, 50), 20, 0), &cancel));
}

TEST_F(SessionTest, AnEmptyBatchGivesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 64}));
  EXPECT_OK(session->decode(Batch()));
  EXPECT_EQ(session->n_outputs(), 0);
}

TEST_F(SessionTest, RefusesOptionsOutOfRange) {
  EXPECT_ERROR(open({.n_ctx = 64, .n_ubatch = 0}), "micro-batch of 0 tokens");
  EXPECT_ERROR(open({.n_ctx = 64, .n_ubatch = 1 << 20}), "micro-batch of 1048576 tokens");
  EXPECT_ERROR(open({.n_ctx = 64, .n_outputs = 0}), "0 outputs");
  EXPECT_ERROR(open({.n_ctx = -1}), "context size -1");
  EXPECT_ERROR(open({.n_ctx = 64, .n_sequences = 0}), "0 sequences");
  EXPECT_ERROR(open({.n_ctx = 64, .type_k = DType::q8_0}), "cannot keep K of 8 elements per head as q8_0");
  EXPECT_ERROR(open({.n_ctx = 64, .threads = {.n_threads = 0}}), "0");
}

TEST_F(SessionTest, AContextOfZeroIsWhatTheModelWasTrainedFor) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({}));
  EXPECT_EQ(session->n_ctx(), 2048);
}

TEST_F(SessionTest, AnEngineThatIsNotLoadedIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::open(*registry, path_, {}));
  EXPECT_OK(Session::plan(*engine, {}));
  EXPECT_ERROR(Session::create(engine, {}), "not loaded");
}

// Decodes more shapes than a session keeps prepared, then the first one again.
TEST_F(SessionTest, ManyShapesOfBatchesAreServed) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 2048, .n_ubatch = 40, .n_outputs = 40}));
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t n = i % 40 + 1;
    ASSERT_OK(session->clear());
    ASSERT_OK(session->decode(all_logits(std::span(tokens_).first(static_cast<size_t>(n)))));
    ASSERT_EQ(session->n_outputs(), n);
  }
}

// The refusal comes before the first micro-batch, not after it.
TEST_F(SessionTest, ABatchLongerThanTheContextIsRefusedBeforeItIsComputed) {
  int n_computed = 0;
  ASSERT_OK_AND_ASSIGN(const auto session,
                       open({.n_ctx = 64, .n_ubatch = 8, .observer = [&](auto, auto, auto) { ++n_computed; }}));
  EXPECT_ERROR(session->decode(Batch::prompt(tokens_, 0, 0)), "position 64 of sequence 0, want 0 to 63");
  EXPECT_EQ(n_computed, 0);
}

// --- shift

// The model file has learned positions in addition to RoPE.
TEST_F(SessionTest, ModelsWithLearnedPositionsAreNotShifted) {
  EditableModel model(path_);
  ASSERT_OK(model.builder.add_tensor("position_embd.weight", DType::f32, {1}));
  model.data.emplace_back(sizeof(float));
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(model.write("positions.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 64}));
  EXPECT_ERROR(session->require_shiftable(), "llama: tokens cannot be shifted: they are stored with learned positions");
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens_).first(20), 0, 0)));
  EXPECT_ERROR(session->shift(0, 0, 20, 1), "cannot be shifted");
  ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), 64));
  ASSERT_OK(session->clear());
  Generator generator(*session, *chain, 0, {.context_shift = true});
  EXPECT_ERROR(generator.start(std::span(tokens_).first(4), nullptr), "cannot be shifted");
}

// RoPE depends only on distances, so shifted tokens equal tokens decoded at the new positions, except for rounding. K
// is rotated once more (2 roundings of 2^-24), and cosines of other angles have other roundings. Five layers give about
// 1e-5.
void expect_shift_is_a_decode(const std::shared_ptr<Engine>& engine) {
  const std::vector<int32_t> tokens = token_ids(*engine, 71);
  for (const int32_t from : {10, 64, 100})
    for (const auto& [n_ubatch, to] : {std::pair<int64_t, int32_t>{16, 0}, {7, from + 20}}) {
      const SessionOptions options{.n_ctx = 256, .n_ubatch = n_ubatch, .type_k = DType::f32, .type_v = DType::f32};
      ASSERT_OK_AND_ASSIGN(const auto moved, Session::create(engine, options));
      ASSERT_OK_AND_ASSIGN(const auto fresh, Session::create(engine, options));
      const auto text = std::span(tokens).first(70);
      ASSERT_OK(moved->decode(Batch::prompt(text, from, 0)));
      ASSERT_OK(moved->shift(0, from, 256, to - from));
      EXPECT_EQ(moved->min_position(0), to);
      EXPECT_EQ(moved->max_position(0), to + 69);
      ASSERT_OK(fresh->decode(Batch::prompt(text, to, 0)));
      for (Session* session : {moved.get(), fresh.get()})
        ASSERT_OK(session->decode(Batch::prompt(std::span(tokens).last(1), to + 70, 0)));
      for (size_t i = 0; i < moved->logits(0).size(); ++i)
        ASSERT_NEAR(moved->logits(0)[i], fresh->logits(0)[i], 2e-4) << from << " to " << to;
    }
}

TEST_F(SessionTest, ShiftedTokensAreAsIfDecodedAtTheirNewPositions) { expect_shift_is_a_decode(engine_); }

// YaRN scales K. A shift must not scale it again.
TEST_F(SessionTest, ShiftedTokensKeepTheirMagnitude) {
  EngineOptions options;
  options.rope.scaling = nn::RopeScaling::yarn;
  options.rope.factor = 4.0f;
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path_, options));
  expect_shift_is_a_decode(engine);
}

TEST_F(SessionTest, ARefusedShiftMovesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto session, open({.n_ctx = 128}));
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens_).first(20), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto before, session->save_state(0));
  EXPECT_ERROR(session->shift(0, 10, 20, -1), "would meet position 9");
  EXPECT_ERROR(session->shift(0, 0, 20, 109), "would leave");
  ASSERT_OK_AND_ASSIGN(const auto after, session->save_state(0));
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace tessera
