// The shift of a full context: answers that go on, and what other sequences see of it.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"
#include "tests/server/scheduler_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::EndReason;

class ContextShift : public SchedulerTest {
 protected:
  server::SequenceSpec shifting(int64_t n, int64_t n_predict, int64_t n_keep, int64_t seed = 0) {
    server::SequenceSpec spec = sequence(n, n_predict, seed);
    spec.shifts_context = true;
    spec.n_keep = n_keep;
    return spec;
  }

  // The tokens of the engine's generator in a context of its own.
  std::vector<int32_t> generated(int64_t n, int64_t n_predict, int64_t n_keep, int64_t n_ctx) {
    auto session = Session::create(engine_, {.n_ctx = n_ctx, .n_ubatch = 64}).value();
    auto chain = sample::Chain::create(sampling(0), sampling_vocab(engine_), 4096).value();
    Generator generator(*session, *chain, 0,
                        {.n_predict = n_predict, .ignore_end = true, .context_shift = true, .n_keep = n_keep});
    EXPECT_OK(generator.start(token_ids(*engine_, n), nullptr));
    std::vector<int32_t> tokens;
    while (true) {
      const int32_t token = generator.next(nullptr).value();
      if (token < 0) return tokens;
      tokens.push_back(token);
    }
  }
};

TEST_F(ContextShift, TokensAreThoseOfTheGenerator) {
  for (const int64_t n_keep : {0, 5, 90, -1}) {
    open({.n_slots = 2, .options = {.slot_context = 128}});
    const Running other = submit(sequence(40, 60, 3), "b");
    const auto ended = submit(shifting(90, 300, n_keep)).collector->wait();
    EXPECT_EQ(ended[0].tokens, generated(90, 300, n_keep, 128)) << n_keep;
    EXPECT_EQ(ended[0].end->reason, EndReason::length);
    EXPECT_EQ(ended[0].end->n_generated, 300);
    EXPECT_FALSE(ended[0].end->is_exact);
    EXPECT_EQ(other.collector->wait()[0].tokens, alone(sequence(40, 60, 3), 3));
    EXPECT_EQ(metrics_->preempted[static_cast<size_t>(server::PreemptionReason::memory)], 0u);
  }
}

// K and V that depend on forgotten tokens never serve another sequence. What entered the cache before is right.
TEST_F(ContextShift, NothingShiftedEntersTheCache) {
  open({.n_slots = 2, .options = {.slot_context = 128}});
  const auto shifted = submit(shifting(100, 200, 0)).collector->wait();
  server::SequenceSpec next = sequence(100, 20);
  next.prompt.insert(next.prompt.end(), shifted[0].tokens.begin(), shifted[0].tokens.begin() + 5);
  const auto expected = alone(next, 0);
  const auto ended = submit(std::move(next)).collector->wait();
  EXPECT_EQ(ended[0].tokens, expected);
  EXPECT_LE(ended[0].n_cached, 128);
  // 3 shifts by 64 left the last 108 of 300 tokens.
  server::SequenceSpec tail = sequence(1, 20);
  tail.prompt.assign(shifted[0].tokens.end() - 108, shifted[0].tokens.end());
  EXPECT_EQ(submit(std::move(tail)).collector->wait()[0].n_cached, 0);
}

TEST_F(ContextShift, AModelThatCannotShiftComputesAgain) {
  open({.model = "mamba-dense", .n_cache_marks = 4, .n_slots = 2, .options = {.slot_context = 64}});
  const auto ended = submit(shifting(40, 100, 4)).collector->wait();
  EXPECT_EQ(ended[0].tokens.size(), 100u);
  EXPECT_EQ(ended[0].end->reason, EndReason::length);
  EXPECT_GT(metrics_->preempted[static_cast<size_t>(server::PreemptionReason::memory)], 0u);
}

TEST_F(ContextShift, DiscardsAsManyAsAskedFor) {
  open({.n_slots = 1, .n_ctx = 128, .options = {}});
  for (const int64_t n_discard : {1, 20, 100'000}) {
    server::SequenceSpec spec = shifting(60, 150, 10);
    spec.n_discard = n_discard;
    const auto ended = submit(std::move(spec)).collector->wait();
    EXPECT_EQ(ended[0].tokens.size(), 150u) << n_discard;
    EXPECT_EQ(ended[0].end->reason, EndReason::length);
  }
}

class ContextShiftApi : public ApiTest {};

TEST_F(ContextShiftApi, AnAnswerGoesOnBeyondTheContext) {
  for (const bool shifts : {true, false}) {
    ApiSetup setup;
    setup.n_ctx = 256;
    setup.options.api.shifts_context = shifts;
    start(std::move(setup));
    const Answer answer = post_json(
        "/completion", ordered_json{{"prompt", "Once"}, {"n_predict", 400}, {"ignore_eos", true}, {"n_keep", 8}});
    EXPECT_EQ(answer.json["tokens_predicted"] == 400, shifts) << answer.reply.body;
    EXPECT_EQ(answer.json["truncated"], true);
    EXPECT_EQ(answer.json["timings"].contains("exact"), shifts);
    server_.reset();
  }
}

}  // namespace
}  // namespace tessera
