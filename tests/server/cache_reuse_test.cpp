// Chunks of a prompt that are reused at another place: `n_cache_reuse`.
#include <gtest/gtest.h>

#include "tessera/server/run/moved_chunks.h"
#include "tests/server/api_support.h"
#include "tests/server/scheduler_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::moved_chunks;
using server::MovedChunk;

TEST(MovedChunks, AreTheFirstPlacesThatFit) {
  const std::vector<int32_t> held = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(moved_chunks(held, std::vector<int32_t>{1, 2, 5, 6, 7, 8}, 2, 4), (std::vector<MovedChunk>{{4, 2, 4}}));
  EXPECT_EQ(moved_chunks(held, std::vector<int32_t>{1, 2, 5, 6, 7, 10, 11, 12}, 2, 3),
            (std::vector<MovedChunk>{{4, 2, 3}, {9, 5, 3}}));
  EXPECT_TRUE(moved_chunks(held, std::vector<int32_t>{1, 2, 5, 6, 7, 8}, 2, 5).empty());
  EXPECT_TRUE(moved_chunks(held, std::vector<int32_t>{1, 2, 9, 8, 7}, 2, 2).empty());
  EXPECT_TRUE(moved_chunks(held, held, 12, 1).empty());
  EXPECT_TRUE(moved_chunks({}, held, 0, 1).empty());
  // A chunk that begins within a failed one.
  EXPECT_EQ(moved_chunks(std::vector<int32_t>{1, 7, 7, 7, 8, 2}, std::vector<int32_t>{1, 7, 7, 8}, 2, 2),
            (std::vector<MovedChunk>{{3, 2, 2}}));
}

TEST(MovedChunks, RepetitiveTokensTakeLinearTime) {
  const std::vector<int32_t> held(1'000'000, 5);
  std::vector<int32_t> wanted(500'000, 5);
  wanted.back() = 6;
  EXPECT_TRUE(moved_chunks(held, wanted, 0, 500'000).empty());
}

class CacheReuse : public SchedulerTest {
 protected:
  // The tokens of the first sequence without those from 30 to 60.
  server::SequenceSpec shortened(int64_t n_cache_reuse) {
    server::SequenceSpec spec = sequence(120, 20);
    spec.prompt.erase(spec.prompt.begin() + 30, spec.prompt.begin() + 60);
    spec.prompt.push_back(9);
    spec.n_cache_reuse = n_cache_reuse;
    return spec;
  }
  // The same by the session's own operations.
  std::vector<int32_t> shifted_by_hand() {
    auto session = Session::create(engine_, {.n_ctx = 512, .n_ubatch = 64}).value();
    EXPECT_OK(session->decode(Batch::prompt(sequence(120, 1).prompt, 0, 0)));
    EXPECT_OK(session->remove(0, 30, 60));
    EXPECT_OK(session->shift(0, 60, 120, -30));
    std::vector<int32_t> tokens;
    for (int32_t token = 9; tokens.size() < 20; token = tokens.back()) {
      const auto position = static_cast<int32_t>(90 + tokens.size());
      EXPECT_OK(session->decode(Batch::prompt(std::vector<int32_t>{token}, position, 0)));
      const auto logits = session->logits(0);
      tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    }
    return tokens;
  }
};

TEST_F(CacheReuse, AChunkMovesToItsNewPlace) {
  open();
  submit(sequence(120, 5)).collector->wait();
  const auto ended = submit(shortened(16)).collector->wait();
  EXPECT_EQ(ended[0].n_cached, 90);
  EXPECT_FALSE(ended[0].end->is_exact);
  EXPECT_FALSE(ended[0].end->is_shifted);
  EXPECT_EQ(ended[0].tokens, shifted_by_hand());
}

TEST_F(CacheReuse, ItIsOffByDefaultAndShortChunksStay) {
  open();
  const auto expected = alone(shortened(0), 0);
  for (const int64_t n_cache_reuse : {0, 61}) {
    submit(sequence(120, 5)).collector->wait();
    const auto ended = submit(shortened(n_cache_reuse)).collector->wait();
    EXPECT_LE(ended[0].n_cached, 30 + 64);
    EXPECT_TRUE(ended[0].end->is_exact);
    EXPECT_EQ(ended[0].tokens, expected);
  }
}

// Moved keys and values never serve another sequence, and the earlier sequence's stay as they are.
TEST_F(CacheReuse, NothingMovedEntersTheCache) {
  open();
  const auto whole = alone(sequence(120, 20), 0);
  submit(sequence(120, 5)).collector->wait();
  EXPECT_FALSE(submit(shortened(16)).collector->wait()[0].end->is_exact);
  const auto exact = submit(shortened(0)).collector->wait();
  EXPECT_EQ(exact[0].n_cached, 30);
  EXPECT_EQ(exact[0].tokens, alone(shortened(0), 0));
  const auto again = submit(sequence(120, 20)).collector->wait();
  EXPECT_EQ(again[0].n_cached, 119);
  EXPECT_EQ(again[0].tokens, whole);
}

TEST_F(CacheReuse, ModelsThatCannotIgnoreIt) {
  for (const char* model : {"mamba-dense", "gemma2-dense", "gpt2-dense"}) {
    open({.model = model, .n_cache_marks = 4, .options = {}});
    submit(sequence(120, 5)).collector->wait();
    const auto ended = submit(shortened(16)).collector->wait();
    EXPECT_TRUE(ended[0].end->is_exact) << model;
    EXPECT_EQ(ended[0].tokens, alone(shortened(0), 0)) << model;
  }
}

class CacheReuseApi : public ApiTest {};

TEST_F(CacheReuseApi, TheAnswerSaysThatItIsNotExact) {
  start();
  ordered_json ids = ordered_json::array();
  for (int i = 0; i < 200; ++i) ids.push_back(i * 7 % 400 + 5);
  const ordered_json body = {{"prompt", ids}, {"n_predict", 4}, {"n_cache_reuse", 32}};
  EXPECT_FALSE(post_json("/completion", body).json["timings"].contains("exact"));
  ordered_json shorter = body;
  shorter["prompt"].erase(shorter["prompt"].begin() + 40, shorter["prompt"].begin() + 70);
  const Answer answer = post_json("/completion", shorter);
  EXPECT_EQ(answer.json["timings"]["exact"], false);
  EXPECT_EQ(answer.json["timings"]["cache_n"], 169);
  EXPECT_EQ(answer.json["truncated"], false);
}

}  // namespace
}  // namespace tessera
