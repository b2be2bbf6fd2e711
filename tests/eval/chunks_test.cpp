// Chunks of a text, with the vocabulary of four_letters(), and their decoding with a model.
#include "tessera/eval/chunks.h"

#include <gtest/gtest.h>

#include "tests/eval/letters.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;
using eval::ChunkOptions;
using eval::ChunkRun;
using eval::Chunks;
using Ids = std::vector<int32_t>;

// Like letters(), but without a token of two letters.
std::unique_ptr<const text::Tokenizer> four_letters(Bos bos) {
  text::VocabData data = small_vocab({{"a"}, {"b"}, {"c"}, {"d"}});
  data.add_bos = bos == Bos::add;
  return make_tokenizer(std::move(data));
}

Ids ids_of(const Chunks& chunks, int64_t i) {
  Ids ids;
  for (int64_t position = 0; position < chunks.n_ctx(); ++position) ids.push_back(chunks.token(i, position));
  return ids;
}

TEST(Chunks, BosTakesTheFirstPlaceOfEachChunkAndTheTailIsDropped) {
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(*four_letters(Bos::add), "abcdabcdab", {.n_ctx = 4}));
  ASSERT_EQ(chunks.size(), 2);  // 11 tokens, including BOS
  EXPECT_EQ(ids_of(chunks, 0), (Ids{1, 3, 4, 5}));
  EXPECT_EQ(ids_of(chunks, 1), (Ids{1, 3, 4, 5}));  // BOS replaces d
  const auto text = chunks.text_tokens();
  EXPECT_EQ(Ids(text.begin(), text.end()), (Ids{1, 3, 4, 5, 6, 3, 4, 5}));
}

TEST(Chunks, OverlapByTheStrideWithBosInEach) {
  ASSERT_OK_AND_ASSIGN(const Chunks chunks,
                       Chunks::create(*four_letters(Bos::add), "abcdabcda", {.n_ctx = 5, .stride = 2}));
  ASSERT_EQ(chunks.size(), 3);  // of 10 tokens, starting at 0, 2 and 4; the last token is dropped
  EXPECT_EQ(ids_of(chunks, 0), (Ids{1, 3, 4, 5, 6}));
  EXPECT_EQ(ids_of(chunks, 1), (Ids{1, 5, 6, 3, 4}));
  EXPECT_EQ(ids_of(chunks, 2), (Ids{1, 3, 4, 5, 6}));
  ASSERT_OK_AND_ASSIGN(const Chunks one, Chunks::create(*four_letters(Bos::none), "abcda", {.n_ctx = 5, .stride = 4}));
  EXPECT_EQ(one.size(), 1);
}

TEST(Chunks, OfTokens) {
  const auto tokenizer = four_letters(Bos::add);
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(tokenizer->vocab(), {3, 4, 5, 6, 6, 5, 4, 3}, 4));
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(ids_of(chunks, 1), (Ids{1, 5, 4, 3}));
  EXPECT_ERROR(Chunks::create(tokenizer->vocab(), {3, 4, 7, 6}, 4), "token 2 is 7, the vocabulary has 0 to 6");
  EXPECT_ERROR(Chunks::create(tokenizer->vocab(), {3, 4, 5, -1}, 4), "token 3 is -1");
}

TEST(Chunks, OfTokensThatAreCut) {
  const auto tokenizer = four_letters(Bos::add);
  Ids ids = {1, 3, 4, 5, 6, 6, 5, 4, 3};
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(tokenizer->vocab(), ids, ChunkOptions{.n_ctx = 4}));
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(ids_of(chunks, 1), (Ids{1, 6, 5, 4}));
  ASSERT_OK_AND_ASSIGN(const Chunks overlapping,
                       Chunks::create(tokenizer->vocab(), ids, ChunkOptions{.n_ctx = 5, .stride = 2, .n_skip = 1}));
  ASSERT_EQ(overlapping.size(), 2);
  EXPECT_EQ(ids_of(overlapping, 1), (Ids{1, 6, 5, 4, 3}));
  EXPECT_ERROR(Chunks::create(tokenizer->vocab(), ids, ChunkOptions{.n_ctx = 5}), "text of 9 tokens, want at least 10");
  EXPECT_ERROR(Chunks::create(tokenizer->vocab(), ids, ChunkOptions{.n_ctx = 3}), "chunks of 3 tokens");
  ids[8] = 7;
  EXPECT_ERROR(Chunks::create(tokenizer->vocab(), ids, ChunkOptions{.n_ctx = 4}), "token 8 is 7");
}

TEST(Chunks, RefusesTextThatIsNotUtf8) {
  EXPECT_ERROR(Chunks::create(*four_letters(Bos::none),
                              "abcd\xff"
                              "abcd",
                              {.n_ctx = 4}),
               "text: byte 4 (0xff) is not UTF-8");
  EXPECT_ERROR(Chunks::create(*four_letters(Bos::none), "abcdabcd\xe2\x82", {.n_ctx = 4}), "byte 8 (0xe2)");
}

TEST(Chunks, WithoutBosTheTokensStay) {
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(*four_letters(Bos::none), "abcdabcdab", {.n_ctx = 5}));
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(ids_of(chunks, 0), (Ids{3, 4, 5, 6, 3}));
  EXPECT_EQ(ids_of(chunks, 1), (Ids{4, 5, 6, 3, 4}));
}

TEST(Chunks, SkipsAndLimits) {
  const auto tokenizer = four_letters(Bos::none);
  const auto create = [&](const ChunkOptions& options) {
    return Chunks::create(*tokenizer, "aaaabbbbccccdddd", options);
  };
  ASSERT_OK_AND_ASSIGN(const Chunks part, create({.n_ctx = 4, .n_skip = 1, .n_max_chunks = 2}));
  ASSERT_EQ(part.size(), 2);
  EXPECT_EQ(ids_of(part, 0), (Ids{4, 4, 4, 4}));
  EXPECT_EQ(ids_of(part, 1), (Ids{5, 5, 5, 5}));
  ASSERT_OK_AND_ASSIGN(const Chunks rest, create({.n_ctx = 4, .n_skip = 3, .n_max_chunks = 9}));
  EXPECT_EQ(rest.size(), 1);
  EXPECT_ERROR(create({.n_ctx = 4, .n_skip = 4}), "text of 4 chunks of 4 tokens: none is left after 4");
}

TEST(Chunks, RefusesAShortTextAndBadOptions) {
  const auto tokenizer = four_letters(Bos::add);
  EXPECT_ERROR(Chunks::create(*tokenizer, "abcdab", {.n_ctx = 4}), "text of 7 tokens, want at least 8");
  EXPECT_OK(Chunks::create(*tokenizer, "abcdabc", {.n_ctx = 4}));
  EXPECT_ERROR(Chunks::create(*tokenizer, "", {.n_ctx = 4}), "want at least 8");
  EXPECT_ERROR(Chunks::create(*tokenizer, "abcd", {.n_ctx = 3}), "chunks of 3 tokens, want 4 to");
  EXPECT_ERROR(Chunks::create(*tokenizer, "abcd", {.n_skip = -1}), "-1 chunks to skip");
  EXPECT_ERROR(Chunks::create(*tokenizer, "abcd", {.n_ctx = 4, .stride = 4}), "stride of 4 tokens, want 1 to 3");
  EXPECT_ERROR(Chunks::create(*tokenizer, "ab", {.n_ctx = 4, .stride = 1}), "text of 3 tokens, want at least 4");
}

TEST(ChunkRun, FillsAMicroBatchWithChunks) {
  const ChunkRun run{.n_call = 512, .outputs = {64, 127}};
  SessionOptions options{.n_ubatch = 2048};
  run.set_up(options, 128);
  EXPECT_EQ(options.n_ctx, 512);
  EXPECT_EQ(options.n_sequences, 4);
  EXPECT_EQ(options.n_ubatch, 512);
  EXPECT_EQ(options.n_outputs, 4 * 63);
  run.set_up(options, 2048);
  EXPECT_EQ(options.n_sequences, 1);
  EXPECT_EQ(run.n_parallel(1), kMaxSequences / 2);  // 512
}

// The logits of a chunk depend only on its tokens, not on the calls or on other chunks.
TEST(DecodeChunks, GivesTheLogitsOfEachChunkAlone) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Once upon a time there was a girl. ";
  constexpr int64_t kTokens = 100;
  ASSERT_OK_AND_ASSIGN(const Chunks chunks,
                       Chunks::create(engine->tokenizer(), text, {.n_ctx = kTokens, .n_max_chunks = 5}));
  ASSERT_EQ(chunks.size(), 5);
  std::vector<std::vector<float>> alone;
  ASSERT_OK_AND_ASSIGN(const auto single, Session::create(engine, {.n_ctx = kTokens, .n_outputs = kTokens}));
  for (int64_t i = 0; i < chunks.size(); ++i) {
    ASSERT_OK(single->clear());
    ASSERT_OK_AND_ASSIGN(std::vector<float> logits, logits_of(*single, ids_of(chunks, i)));
    alone.push_back(std::move(logits));
  }
  for (const int64_t n_call : {7, 100, 250, 512}) {
    const ChunkRun run{.n_call = n_call, .outputs = {50, 99}};
    SessionOptions options;
    run.set_up(options, kTokens);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
    std::vector<std::pair<int64_t, int64_t>> visited, wanted;
    for (int64_t begin = 0; begin < chunks.size(); begin += run.n_parallel(kTokens)) {
      const Range which{begin, std::min(begin + run.n_parallel(kTokens), chunks.size())};
      ASSERT_OK(eval::decode_chunks(
          *session, chunks, which, run,
          [&](std::span<const eval::ChunkRow> rows) -> Result<> {
            for (const auto& [chunk, position, logits] : rows) {
              visited.emplace_back(chunk, position);
              const auto want =
                  std::span(alone[static_cast<size_t>(chunk)]).subspan(static_cast<size_t>(position) * 512, 512);
              EXPECT_TRUE(same_bits(logits, want)) << n_call << ": chunk " << chunk << " position " << position;
            }
            return {};
          },
          nullptr));
    }
    for (int64_t chunk = 0; chunk < 5; ++chunk)
      for (int64_t position = 50; position < 99; ++position) wanted.emplace_back(chunk, position);
    EXPECT_EQ(visited, wanted) << n_call;
  }
}

TEST(DecodeChunks, TheVisitorsErrorEndsTheRun) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(
      const Chunks chunks,
      Chunks::create(engine->tokenizer(), "Once upon a time there was a girl who had a dog", {.n_ctx = 4}));
  const ChunkRun run{.n_call = 2, .outputs = {0, 4}};
  SessionOptions options;
  run.set_up(options, 4);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
  int n_visits = 0;
  const auto done = eval::decode_chunks(
      *session, chunks, {0, 1}, run,
      [&](std::span<const eval::ChunkRow>) -> Result<> {
        if (++n_visits == 2) return fail(ErrorCode::format, "enough");
        return {};
      },
      nullptr);
  EXPECT_ERROR(done, "enough");
  EXPECT_EQ(n_visits, 2);
}

TEST(DecodeAll, VisitsEveryChunkUntilItIsStopped) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(story_model()));
  const std::vector<int32_t> ids = token_ids(*engine, 7 * 8);
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(engine->vocab(), ids, ChunkOptions{.n_ctx = 8}));
  const ChunkRun run{.n_call = 24, .outputs = {7, 8}};
  SessionOptions options;
  run.set_up(options, 8);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
  std::vector<int64_t> visited, done;
  int64_t n_stop = -1;
  const auto visit = [&](std::span<const eval::ChunkRow> rows) -> Result<> {
    for (const eval::ChunkRow& row : rows) visited.push_back(row.chunk);
    return {};
  };
  const auto note = [&](int64_t n) {
    done.push_back(n);
    return n != n_stop;
  };
  ASSERT_OK(eval::decode_all(*session, chunks, run, visit, note, nullptr));
  EXPECT_EQ(done, (std::vector<int64_t>{3, 6, 7}));
  EXPECT_EQ(visited, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  n_stop = 3;
  const auto stopped = eval::decode_all(*session, chunks, run, visit, note, nullptr);
  EXPECT_ERROR(stopped, "stopped after chunk 3 of 7");
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(eval::decode_all(*session, chunks, run, visit, note, &cancel).error().code(), ErrorCode::cancelled);
}

}  // namespace
}  // namespace tessera
