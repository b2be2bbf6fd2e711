// Statistics of a comparison computed by hand, and the file of a base model's log-probabilities.
#include "tessera/eval/kl_divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::BaseFile;
using eval::BaseFileWriter;
using eval::Chunks;
using eval::Distribution;
using eval::KlDivergence;

TEST(Distribution, QuantilesLieBetweenTheValues) {
  const Distribution d({5, 1, 4, 2});
  EXPECT_EQ(d.mean(), 3.0);
  EXPECT_EQ(d.quantile(0), 1.0);
  EXPECT_EQ(d.quantile(1), 5.0);
  EXPECT_EQ(d.quantile(0.5), 3.0);
  EXPECT_NEAR(d.quantile(0.9), 4.7, 1e-12);
  EXPECT_EQ(Distribution({7}).quantile(0.3), 7.0);
}

TEST(KlDivergence, StatisticsByHand) {
  KlDivergence divergence;
  EXPECT_EQ(divergence.mean_kl(), 0.0);
  divergence.add({.kl = 0.1, .nll = 1.0, .nll_base = 0.5, .has_same_top = true});
  divergence.add({.kl = 0.3, .nll = 3.0, .nll_base = 2.5, .has_same_top = false});
  divergence.add({.kl = 0.2, .nll = 2.0, .nll_base = 3.0, .has_same_top = true});
  const eval::KlStatistics s = divergence.statistics();
  EXPECT_EQ(s.n_tokens, 3);
  EXPECT_NEAR(s.ppl.value, std::exp(2.0), 1e-12);
  EXPECT_NEAR(s.ppl.error, std::exp(2.0) * std::sqrt(2.0 / 3 / 2), 1e-12);
  EXPECT_NEAR(s.ppl_base.value, std::exp(2.0), 1e-12);
  // The deviations are -1, 1, 0 and -1.5, 0.5, 1. Their products sum to 2, their squares to 2 and 3.5.
  EXPECT_NEAR(s.correlation, 2 / std::sqrt(7.0), 1e-12);
  EXPECT_NEAR(s.log_ratio.value, 0.0, 1e-12);
  EXPECT_NEAR(s.log_ratio.error, std::sqrt((2 + 3.5 - 4) / 3 / 2), 1e-12);  // of 0.5, 0.5 and -1
  EXPECT_NEAR(s.ratio.value, 1.0, 1e-12);
  EXPECT_NEAR(s.difference.error, std::exp(2.0) * s.log_ratio.error, 1e-12);
  EXPECT_NEAR(s.kl.value, 0.2, 1e-12);
  EXPECT_NEAR(s.kl.error, 0.1 / std::sqrt(3.0), 1e-12);
  EXPECT_NEAR(s.kl_values.quantile(0.5), 0.2, 1e-7);
  const double changes[] = {std::exp(-1.0) - std::exp(-0.5), std::exp(-3.0) - std::exp(-2.5),
                            std::exp(-2.0) - std::exp(-3.0)};
  EXPECT_NEAR(s.p_change.value, (changes[0] + changes[1] + changes[2]) / 3, 1e-12);
  double squares = 0;
  for (const double change : changes) squares += change * change;
  EXPECT_NEAR(s.p_change_rms.value, std::sqrt(squares / 3), 1e-12);
  EXPECT_NEAR(s.same_top.value, 2.0 / 3, 1e-12);
  EXPECT_NEAR(s.same_top.error, std::sqrt(2.0 / 9 / 2), 1e-12);
}

TEST(KlDivergence, OneTokenHasNoErrors) {
  KlDivergence divergence;
  divergence.add({.kl = 0.1, .nll = 1.0, .nll_base = 0.5, .has_same_top = true});
  const eval::KlStatistics s = divergence.statistics();
  for (const eval::Measured& m : {s.ppl, s.ppl_base, s.log_ratio, s.ratio, s.difference, s.kl, s.p_change, s.same_top})
    EXPECT_EQ(m.error, 0.0);
  EXPECT_EQ(s.correlation, 0.0);
}

constexpr size_t kTrailer = 16 + 4 * 4;  // bytes, for the files below

class BaseFileTest : public ::testing::Test {
 protected:
  static std::unique_ptr<const text::Tokenizer> letters(std::vector<testing::SmallToken> tokens = {{"a"}, {"b"}}) {
    return testing::make_tokenizer(testing::small_vocab(tokens));
  }

  // Two chunks of six tokens with 2 scored positions each. The logits depend on the number of the position.
  Result<> write() {
    TESSERA_ASSIGN(const Chunks chunks, Chunks::create(*tokenizer_, "aababbbaabab", {.n_ctx = 6}));
    TESSERA_ASSIGN(BaseFileWriter writer, BaseFileWriter::create(path_, chunks, tokenizer_->vocab()));
    for (const int64_t chunk : {0, 1}) {
      const std::vector<float> first = logits_of(chunk, 3), second = logits_of(chunk, 4);
      TESSERA_TRY(writer.add(chunks, std::vector<eval::ChunkRow>{{chunk, 3, first}, {chunk, 4, second}}, *threads_));
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    TESSERA_TRY(writer.finish());
    EXPECT_EQ(std::filesystem::file_size(path_), writer.bytes());
    return {};
  }
  static std::vector<float> logits_of(int64_t chunk, int64_t position) {
    std::vector<float> logits(5);
    for (size_t i = 0; i < 5; ++i) logits[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + chunk + position) % 5);
    return logits;
  }

  std::string bytes() const { return testing::read_all(path_); }
  Result<BaseFile> open(const std::string& content) const {
    return BaseFile::open(testing::write_temporary("edited.kld", content));
  }

  void SetUp() override { std::filesystem::remove(path_); }

  std::string path_ = (testing::temporary_dir() / "base.kld").string();
  std::unique_ptr<const text::Tokenizer> tokenizer_ = letters();
  std::unique_ptr<ThreadPool> threads_ = ThreadPool::create({.n_threads = 2, .poll = 0}).value();
};

TEST_F(BaseFileTest, HasThePublishedForm) {
  ASSERT_OK(write());
  const std::string file = bytes();
  EXPECT_EQ(file.size(), 20 + 2 * 6 * 4 + 4 * 2 * 10 + kTrailer);  // rows of 4 + 6 words
  EXPECT_EQ(file.substr(0, 8), "_logits_");
  int32_t numbers[15];
  std::memcpy(numbers, &file[8], sizeof numbers);
  EXPECT_EQ(std::vector<int32_t>(numbers, numbers + 3), (std::vector<int32_t>{6, 5, 2}));
  // The tokens of the text: BOS only at its original position, not before each chunk.
  EXPECT_EQ(std::vector<int32_t>(numbers + 3, numbers + 15),
            (std::vector<int32_t>{1, 3, 3, 4, 3, 4, 4, 4, 3, 3, 4, 3}));
}

TEST_F(BaseFileTest, ReadsBackWhatWasWritten) {
  ASSERT_OK(write());
  ASSERT_OK_AND_ASSIGN(const BaseFile base, BaseFile::open(path_));
  EXPECT_EQ(base.n_ctx(), 6);
  EXPECT_EQ(base.n_vocab(), 5);
  EXPECT_EQ(base.n_chunks(), 2);
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, base.chunks(tokenizer_->vocab(), -1));
  EXPECT_EQ(chunks.size(), 2);
  EXPECT_EQ(chunks.token(1, 0), 1);  // BOS
  EXPECT_EQ(chunks.token(1, 1), 4);
  const std::vector<float> logits[] = {logits_of(0, 4), logits_of(1, 3)};
  const std::vector<eval::ChunkRow> rows = {{0, 4, logits[0]}, {1, 3, logits[1]}};
  KlDivergence divergence;
  ASSERT_OK(eval::compare(divergence, base, chunks, rows, *threads_));
  EXPECT_EQ(divergence.n_tokens(), 2);
  EXPECT_EQ(divergence.mean_kl(), 0.0);
  const std::vector<eval::ChunkRow> other = {{0, 3, logits[0]}};
  ASSERT_OK(eval::compare(divergence, base, chunks, other, *threads_));
  EXPECT_GT(divergence.mean_kl(), 0.1);
  ASSERT_OK_AND_ASSIGN(const Chunks first, base.chunks(tokenizer_->vocab(), 1));
  EXPECT_EQ(first.size(), 1);
}

// The code in a row is cut at 16 nats below the highest; the trailer has the exact value.
TEST_F(BaseFileTest, KeepsHowUnlikelyATokenWas) {
  ASSERT_OK_AND_ASSIGN(const Chunks chunks,
                       Chunks::create(*tokenizer_, "aababbbaabab", {.n_ctx = 6, .n_max_chunks = 1}));
  ASSERT_OK_AND_ASSIGN(BaseFileWriter writer, BaseFileWriter::create(path_, chunks, tokenizer_->vocab()));
  const std::vector<float> logits = {0, 0, 0, -30, -40};
  const std::vector<eval::ChunkRow> rows = {{0, 3, logits}, {0, 4, logits}};  // before a and b
  ASSERT_EQ(chunks.token(0, 4), 3);
  ASSERT_EQ(chunks.token(0, 5), 4);
  ASSERT_OK(writer.add(chunks, rows, *threads_));
  ASSERT_OK(writer.finish());
  ASSERT_OK_AND_ASSIGN(const BaseFile base, BaseFile::open(path_));
  EXPECT_NEAR(base.exact_nll(0, 3).value_or(0), 30 + std::log(3.0), 1e-5);
  EXPECT_NEAR(base.exact_nll(0, 4).value_or(0), 40 + std::log(3.0), 1e-5);
  KlDivergence divergence;
  ASSERT_OK(eval::compare(divergence, base, chunks, rows, *threads_));
  EXPECT_NEAR(std::log(divergence.statistics().ppl_base.value), 35 + std::log(3.0), 1e-5);
  EXPECT_EQ(divergence.statistics().log_ratio.value, 0.0);
  ASSERT_OK_AND_ASSIGN(const BaseFile cut, open(bytes().substr(0, bytes().size() - 16 - 8)));
  EXPECT_FALSE(cut.exact_nll(0, 3));
  KlDivergence of_codes;
  ASSERT_OK(eval::compare(of_codes, cut, chunks, rows, *threads_));
  EXPECT_NEAR(std::log(of_codes.statistics().ppl_base.value), 16 + std::log(3.0), 1e-3);
  EXPECT_EQ(of_codes.statistics().log_ratio.value, 0.0);
}

TEST_F(BaseFileTest, RefusesALikelihoodThatCannotBe) {
  ASSERT_OK(write());
  for (const float bad : {NAN, -1.0f, INFINITY}) {
    std::string file = bytes();
    std::memcpy(&file[file.size() - 8], &bad, 4);
    EXPECT_ERROR(open(file), "-log p of scored token 2 is");
  }
}

TEST_F(BaseFileTest, WithoutOurEndItIsReadToo) {
  ASSERT_OK(write());
  ASSERT_OK_AND_ASSIGN(const BaseFile base, open(bytes().substr(0, bytes().size() - kTrailer)));
  EXPECT_OK(base.chunks(letters({{"a"}, {"c"}})->vocab(), -1));  // the file does not identify the vocabulary
}

TEST_F(BaseFileTest, RefusesAnotherVocabulary) {
  ASSERT_OK(write());
  ASSERT_OK_AND_ASSIGN(const BaseFile base, BaseFile::open(path_));
  EXPECT_ERROR(base.chunks(letters({{"a"}, {"b"}, {"c"}})->vocab(), -1),
               "made with a vocabulary of 5 tokens, the model's has 6");
  EXPECT_ERROR(base.chunks(letters({{"a"}, {"c"}})->vocab(), -1), "made with another vocabulary of 5 tokens");
}

TEST_F(BaseFileTest, RefusesEveryTruncation) {
  ASSERT_OK(write());
  const std::string whole = bytes().substr(0, bytes().size() - kTrailer);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_ERROR(open(whole.substr(0, size)), size < 20 ? "too short for a base file" : "truncated: ");
}

TEST_F(BaseFileTest, RefusesHeadersThatCannotBe) {
  ASSERT_OK(write());
  const auto with = [&](size_t offset, int32_t value) {
    std::string file = bytes();
    std::memcpy(&file[offset], &value, 4);
    return open(file);
  };
  EXPECT_ERROR(with(0, 0), "not a file of log-probabilities");
  EXPECT_ERROR(with(8, 3), "chunks of 3 tokens, want 4 to");
  EXPECT_ERROR(with(8, -1), "chunks of 4294967295 tokens");
  EXPECT_ERROR(with(12, 0), "0 tokens in the vocabulary");
  EXPECT_ERROR(with(12, INT32_MAX), "truncated: ");
  EXPECT_ERROR(with(16, -5), "-5 chunks: want at least 1");
  EXPECT_ERROR(with(16, INT32_MAX), "truncated: ");
  ASSERT_OK_AND_ASSIGN(const BaseFile bad_token, with(24, 99));
  EXPECT_ERROR(bad_token.chunks(tokenizer_->vocab(), -1), "token 1 is 99");
}

TEST_F(BaseFileTest, RefusesRowsThatAreNoDistribution) {
  ASSERT_OK(write());
  std::string file = bytes();
  std::ranges::fill(file.begin() + 68, file.begin() + 88, '\0');  // the first row
  ASSERT_OK_AND_ASSIGN(const BaseFile base, open(file));
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, base.chunks(tokenizer_->vocab(), -1));
  const std::vector<float> logits = logits_of(0, 3);
  const std::vector<eval::ChunkRow> rows = {{0, 3, logits}};
  KlDivergence divergence;
  EXPECT_ERROR(eval::compare(divergence, base, chunks, rows, *threads_),
               "chunk 0, position 3: the base's probabilities");
  EXPECT_EQ(divergence.n_tokens(), 0);
}

TEST_F(BaseFileTest, RefusesOverlappingChunksAndBadLogits) {
  ASSERT_OK_AND_ASSIGN(const Chunks overlapping, Chunks::create(*tokenizer_, "aabab", {.n_ctx = 5, .stride = 1}));
  EXPECT_ERROR(BaseFileWriter::create(path_, overlapping, tokenizer_->vocab()), "chunks that overlap");
  ASSERT_OK_AND_ASSIGN(const Chunks chunks, Chunks::create(*tokenizer_, "aababbbaabab", {.n_ctx = 6}));
  ASSERT_OK_AND_ASSIGN(BaseFileWriter writer, BaseFileWriter::create(path_, chunks, tokenizer_->vocab()));
  const std::vector<float> logits(5, NAN);
  EXPECT_ERROR(writer.add(chunks, std::vector<eval::ChunkRow>{{0, 3, logits}}, *threads_),
               "chunk 0, position 3: a logit is not");
}

}  // namespace
}  // namespace tessera
