// The observer of products gets the inputs that the products read, and does not change results.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

struct Seen {
  std::vector<double> sums;
  int64_t n_tokens = 0;
  int n_calls = 0;
};
using SeenByWeight = std::map<std::string, Seen, std::less<>>;

ProductObserver remember_in(SeenByWeight& seen) {
  return [&seen](std::string_view weight, std::span<const float> sums, int64_t n_tokens) {
    Seen& s = seen[std::string(weight)];
    s.sums.resize(sums.size());
    for (size_t i = 0; i < sums.size(); ++i) s.sums[i] += static_cast<double>(sums[i]);
    s.n_tokens += n_tokens;
    ++s.n_calls;
  };
}

std::vector<float> f32_tensor(const GgufFile& file, std::string_view name) {
  const auto bytes = file.data(*file.find_tensor(name));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class ObserverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path_));
    tokens_ = token_ids(*engine_, 100);
  }
  std::string path_;
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
};

TEST_F(ObserverTest, SeesEveryProductOnceForEachMicroBatch) {
  SeenByWeight seen;
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(engine_, {.n_ctx = 128, .n_ubatch = 40, .n_outputs = 100, .observer = remember_in(seen)}));
  ASSERT_OK(session->decode(all_logits(tokens_)));
  EXPECT_EQ(seen.size(), 5u * 7 + 1);  // q, k, v, output, gate, up, down per layer, and the logits
  for (const auto& [weight, s] : seen) {
    EXPECT_EQ(s.n_calls, 3) << weight;
    EXPECT_EQ(s.n_tokens, 100) << weight;
    EXPECT_EQ(s.sums.size(), weight.find("ffn_down") != std::string::npos ? 172u : 64u) << weight;
  }
}

// Expected values for the first layer's inputs come from the file: the RMS norm of the tokens' embeddings.
TEST_F(ObserverTest, SumsAreOfTheProductsInputs) {
  SeenByWeight seen;
  ASSERT_OK_AND_ASSIGN(const auto session,
                       Session::create(engine_, {.n_ctx = 128, .n_ubatch = 33, .observer = remember_in(seen)}));
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path_));
  ASSERT_OK_AND_ASSIGN(const float eps, file->metadata().get<float>("llama.attention.layer_norm_rms_epsilon"));
  const std::vector<float> embd = f32_tensor(*file, "token_embd.weight"),
                           norm = f32_tensor(*file, "blk.0.attn_norm.weight");
  std::vector<double> expected(64);
  for (const int32_t token : tokens_) {
    const float* x = &embd[static_cast<size_t>(token) * 64];
    double mean = 0;
    for (size_t i = 0; i < 64; ++i) mean += static_cast<double>(x[i]) * static_cast<double>(x[i]) / 64;
    for (size_t i = 0; i < 64; ++i)
      expected[i] +=
          std::pow(static_cast<double>(x[i]) * static_cast<double>(norm[i]), 2) / (mean + static_cast<double>(eps));
  }
  for (const char* weight : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"})
    for (size_t i = 0; i < 64; ++i)  // 33 additions in f32, each exact to 2^-24, and the roundings of the norm
      EXPECT_NEAR(seen.at(weight).sums[i], expected[i], 1e-5 * expected[i]) << weight << " " << i;
}

// Tokens without requested logits end in the last layer.
TEST_F(ObserverTest, CountsTheTokensThatAProductSaw) {
  SeenByWeight seen;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, {.n_ctx = 128, .observer = remember_in(seen)}));
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  EXPECT_EQ(seen.at("blk.4.attn_q.weight").n_tokens, 100);
  EXPECT_EQ(seen.at("blk.4.ffn_down.weight").n_tokens, 1);
  EXPECT_EQ(seen.at("blk.3.ffn_down.weight").n_tokens, 100);
}

TEST_F(ObserverTest, LogitsAreTheSameBits) {
  SeenByWeight seen;
  SessionOptions options{.n_ctx = 128, .n_ubatch = 40, .n_outputs = 100, .threads = {.n_threads = 2}};
  ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(engine_, options));
  options.observer = remember_in(seen);
  ASSERT_OK_AND_ASSIGN(const auto observed, Session::create(engine_, options));
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of(*plain, tokens_));
  ASSERT_OK_AND_ASSIGN(const auto got, logits_of(*observed, tokens_));
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_FALSE(seen.empty());
}

TEST_F(ObserverTest, ThePlanHasRoomForTheSums) {
  SeenByWeight seen;
  SessionOptions options{.n_ctx = 128, .n_ubatch = 1};
  ASSERT_OK_AND_ASSIGN(const MemoryReport plain, Session::plan(*engine_, options));
  options.observer = remember_in(seen);
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, options));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  const size_t sums = (5 * (6 * 64 + 172) + 64) * sizeof(float);  // all sums are kept until the end of a run
  EXPECT_GE(plan.bytes(MemoryPart::Kind::compute), plain.bytes(MemoryPart::Kind::compute) + sums);
  EXPECT_EQ(plan.bytes(MemoryPart::Kind::compute), session->allocated_memory().bytes(MemoryPart::Kind::compute));
}

}  // namespace
}  // namespace tessera
