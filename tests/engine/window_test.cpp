// Sessions of a model with attention windows in half of its layers: gemma2 with a window of 20, so 300 tokens leave
// several blocks behind. The expected logits come from one micro-batch, which drops no positions.
#include <gtest/gtest.h>

#include "tessera/engine/generate.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int32_t kWindowTokens = 300;
constexpr uint32_t kWindow = 20;

class WindowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string original = arch_model("gemma2-dense");
    EditableModel model(original);
    model.builder.set("gemma2.attention.sliding_window", kWindow);
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(model.write("window.gguf")));
    tokens_ = token_ids(*engine_, kWindowTokens);
    ASSERT_OK_AND_ASSIGN(const auto session, open(512));
    ASSERT_OK_AND_ASSIGN(expected_, logits_of(*session, tokens_));
  }

  Result<std::unique_ptr<Session>> open(int64_t n_ubatch, int n_threads = 1, int32_t n_sequences = 1,
                                        int64_t n_ctx = 1024) const {
    return Session::create(engine_, {.n_ctx = n_ctx,
                                     .n_ubatch = n_ubatch,
                                     .n_sequences = n_sequences,
                                     .n_outputs = 2 * kWindowTokens,
                                     .threads = {.n_threads = n_threads}});
  }
  std::span<const float> rows(int32_t begin, int32_t end) const {
    const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
    return std::span(expected_).subspan(static_cast<size_t>(begin) * n_vocab,
                                        static_cast<size_t>(end - begin) * n_vocab);
  }
  std::span<const int32_t> tokens(int32_t begin, int32_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  static size_t n_held(const Session& session, int32_t sequence = 0) {
    return session.cache().cells(sequence, 1)->positions.size();
  }

  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

TEST_F(WindowTest, SameBitsWhetherBlocksWereForgottenOrNot) {
  for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{1, 1}, {7, 1}, {64, 2}, {100, 3}}) {
    ASSERT_OK_AND_ASSIGN(const auto session, open(n_ubatch, n_threads));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens_));
    EXPECT_TRUE(same_bits(logits, expected_)) << n_ubatch << " per micro-batch, " << n_threads << " threads";
    EXPECT_LT(n_held(*session), 150u);
    EXPECT_EQ(session->cache().cells(0)->positions.size(), size_t{kWindowTokens});
  }
}

TEST_F(WindowTest, SameBitsTokenByTokenBesideAnotherSequence) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 2, 2));
  const auto other = token_ids(*engine_, kWindowTokens, 5);
  for (int32_t p = 0; p < kWindowTokens; ++p) {
    Batch batch;
    batch.add({.token = other[static_cast<size_t>(p)], .position = p, .sequence = 0});
    batch.add({.token = tokens_[static_cast<size_t>(p)], .position = p, .sequence = 1, .wants_logits = true});
    ASSERT_OK(session->decode(batch));
    ASSERT_TRUE(same_bits(session->logits(0), rows(p, p + 1))) << "position " << p;
  }
  EXPECT_LT(n_held(*session, 1), 150u);
}

// Fifteen micro-batches succeed and leave blocks behind, and the sixteenth is refused. The cache is then as before.
TEST_F(WindowTest, AFailedBatchLeavesTheCacheAsBefore) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(10));
  ASSERT_OK(session->decode(Batch::prompt(tokens(0, 140), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto before, session->save_state(0));
  Batch batch = Batch::prompt(tokens(140, 300), 140, 0);
  batch.add({.position = 5});
  EXPECT_ERROR(session->decode(batch), "position 5 of sequence 0");
  ASSERT_OK_AND_ASSIGN(const auto after, session->save_state(0));
  EXPECT_EQ(after, before);
  ASSERT_OK(session->decode(all_logits(tokens(140, 300), 140)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(140, 300)));
}

TEST_F(WindowTest, GoesBackAsFarAsItSays) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(50));
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto before, session->save_state(0));
  const int32_t lowest = *session->lowest_rollback(0);
  EXPECT_LE(lowest, kWindowTokens - 64);
  EXPECT_ERROR(session->remove(0, lowest - 1, 1024), fmt::format("lowest it can go back to is {}", lowest));
  ASSERT_OK_AND_ASSIGN(const auto after, session->save_state(0));
  EXPECT_EQ(after, before);
  ASSERT_OK(session->remove(0, lowest, 1024));
  ASSERT_OK(session->decode(all_logits(tokens(lowest, kWindowTokens), lowest)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(lowest, kWindowTokens)));
  ASSERT_OK(session->remove(0, 0, 1024));
  ASSERT_OK_AND_ASSIGN(const auto again, logits_of(*session, tokens_));
  EXPECT_TRUE(same_bits(again, expected_));
}

TEST_F(WindowTest, ASavedStateGoesOnInAnotherSession) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 1, 2));
  ASSERT_OK(session->decode(Batch::prompt(tokens(0, 250), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto state, session->save_state(0));
  ASSERT_OK_AND_ASSIGN(const auto fresh, open(7, 2, 2, 300));
  ASSERT_OK(fresh->decode(Batch::prompt(token_ids(*engine_, 30, 3), 0, 1)));
  ASSERT_OK(fresh->restore_state(1, state));
  EXPECT_EQ(fresh->lowest_rollback(1), session->lowest_rollback(0));
  ASSERT_OK_AND_ASSIGN(const auto again, fresh->save_state(1));
  EXPECT_EQ(again, state);
  ASSERT_OK(fresh->decode(all_logits(tokens(250, 300), 250, 1)));
  EXPECT_TRUE(same_bits(all_rows(*fresh), rows(250, 300)));
}

TEST_F(WindowTest, OnlyWhatIsHeldIsSaved) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64));
  const auto bytes_at = [&](int32_t begin, int32_t end) -> Result<size_t> {
    TESSERA_TRY(session->decode(Batch::prompt(tokens(begin, end), begin, 0)));
    TESSERA_ASSIGN(const auto state, session->save_state(0));
    return state.size();
  };
  ASSERT_OK_AND_ASSIGN(const size_t few, bytes_at(0, 1));
  ASSERT_OK_AND_ASSIGN(const size_t two, bytes_at(1, 2));
  ASSERT_OK_AND_ASSIGN(const size_t all, bytes_at(2, kWindowTokens));
  const size_t per_token = two - few, lost = kWindowTokens - n_held(*session);
  // A dropped position omits half of the layers and its position number.
  EXPECT_EQ(few + per_token * (kWindowTokens - 1) - all, lost * ((per_token - 8) / 2 + 4));
}

TEST_F(WindowTest, ACopyGoesOnLikeItsOriginal) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 2, 2));
  ASSERT_OK(session->decode(Batch::prompt(tokens(0, 280), 0, 0)));
  EXPECT_ERROR(session->copy(0, 1, 0, 100), "copy: position 100 of sequence 0 would see positions");
  ASSERT_OK(session->copy(0, 1, 0, 250));
  ASSERT_OK(session->decode(Batch::prompt(token_ids(*engine_, 20, 8), 280, 0)));
  ASSERT_OK(session->decode(all_logits(tokens(250, 300), 250, 1)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(250, 300)));
}

// K is rotated and rounded to f16 once more, which changes a score by about 2^-11 of it, in each of four layers.
TEST_F(WindowTest, AShiftMovesAllLayers) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64));
  ASSERT_OK(session->decode(Batch::prompt(tokens(0, 299), 100, 0)));
  ASSERT_OK(session->shift(0, 0, 1024, -70));
  EXPECT_EQ(session->min_position(0), 30);
  ASSERT_OK(session->decode(Batch::prompt(tokens(299, 300), 329, 0)));
  for (size_t i = 0; i < session->logits(0).size(); ++i)
    ASSERT_NEAR(session->logits(0)[i], rows(299, 300)[i], 0.02) << i;
}

// With and without kept tokens, 400 tokens shift a context of 256 several times.
TEST_F(WindowTest, ContextShiftGoesOnWhereWindowsHaveForgotten) {
  for (const int64_t n_keep : {0, 5, 60, 200}) {
    ASSERT_OK_AND_ASSIGN(const auto session, open(64, 1, 1, 256));
    ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), 256));
    Generator generator(*session, *chain, 0,
                        {.n_predict = 400, .ignore_end = true, .context_shift = true, .n_keep = n_keep});
    ASSERT_OK(generator.start(tokens(0, 220), nullptr));
    while (true) {
      const auto id = generator.next(nullptr);
      ASSERT_TRUE(id.has_value()) << id.error().message() << ", keep " << n_keep;
      if (*id < 0) break;
    }
    EXPECT_EQ(generator.n_generated(), 400);
    // Positions have no gaps: the kept tokens, then the shifted ones.
    EXPECT_EQ(static_cast<int32_t>(session->cache().cells(0)->positions.size()), *session->max_position(0) + 1);
  }
}

TEST_F(WindowTest, ContextShiftIsRefusedWhereKeptTokensWouldComeIntoSight) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 1, 1, 256));
  ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), 256));
  Generator generator(*session, *chain, 0, {.ignore_end = true, .context_shift = true, .n_keep = -1});
  ASSERT_OK(generator.start(tokens(0, 240), nullptr));
  Result<int32_t> id = 0;
  while (id && *id >= 0) id = generator.next(nullptr);
  EXPECT_ERROR(id, "the context of 256 tokens cannot be shifted with 240 kept: layers with a window of 20");
  EXPECT_EQ(session->max_position(0), 255);
}

TEST_F(WindowTest, ThePlanIsWhatIsAllocatedAndSmaller) {
  const auto cache_bytes = [&](int64_t n_ctx) -> Result<size_t> {
    TESSERA_ASSIGN(const MemoryReport plan, Session::plan(*engine_, {.n_ctx = n_ctx, .n_ubatch = 64}));
    TESSERA_ASSIGN(const auto session, Session::create(engine_, {.n_ctx = n_ctx, .n_ubatch = 64}));
    EXPECT_EQ(plan.bytes(MemoryPart::Kind::cache), session->allocated_memory().bytes(MemoryPart::Kind::cache));
    EXPECT_EQ(plan.bytes(MemoryPart::Kind::compute), session->allocated_memory().bytes(MemoryPart::Kind::compute));
    return plan.bytes(MemoryPart::Kind::cache);
  };
  ASSERT_OK_AND_ASSIGN(const size_t small, cache_bytes(8192));
  ASSERT_OK_AND_ASSIGN(const size_t large, cache_bytes(16384));
  const KvLayerShape layer = engine_->model().info().kv_layers[0];
  const auto per_token = static_cast<size_t>(layer.n_heads_kv * (layer.k_dim + layer.v_dim)) * 2;
  const size_t n_full = engine_->model().info().kv_layers.size() / 2, n_tables = 2;
  EXPECT_EQ(large - small, 8192 * n_full * per_token + n_tables * 8192 / 64 * 12);
}

}  // namespace
}  // namespace tessera
