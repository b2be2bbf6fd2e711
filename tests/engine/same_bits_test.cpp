// The central guarantee of the engine: on one instruction set, the logits of a token have the same bits for all other
// contents of a batch, all splits of it, and all present and earlier contents of the cache.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/base/rng.h"
#include "tessera/isa/sets.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kSameBitsTokens = 110;  // two blocks of the cache, 46 tokens into the second

class SameBits : public ::testing::TestWithParam<std::tuple<std::string, const char*>> {
 protected:
  void SetUp() override {
    path_ = named_model(std::get<1>(GetParam()));
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path_, {}, isa()));
    tokens_ = token_ids(*engine_, kSameBitsTokens);
    ASSERT_OK_AND_ASSIGN(const auto session, open());
    ASSERT_OK_AND_ASSIGN(expected_, logits_of(*session, tokens_));
  }

  static const std::string& isa() { return std::get<0>(GetParam()); }

  static SessionOptions options(int64_t n_ubatch = 512, int n_threads = 1, int32_t n_sequences = 1) {
    return {.n_ctx = 128 * n_sequences,
            .n_ubatch = n_ubatch,
            .n_sequences = n_sequences,
            .n_outputs = kSameBitsTokens * n_sequences,
            .threads = {.n_threads = n_threads}};
  }
  Result<std::unique_ptr<Session>> open(int64_t n_ubatch = 512, int n_threads = 1, int32_t n_sequences = 1) const {
    return Session::create(engine_, options(n_ubatch, n_threads, n_sequences));
  }

  /// Returns the expected logits of tokens [begin, end).
  std::span<const float> rows(int64_t begin, int64_t end) const {
    const int64_t n_vocab = engine_->model().info().n_vocab;
    return std::span(expected_).subspan(static_cast<size_t>(begin * n_vocab),
                                        static_cast<size_t>((end - begin) * n_vocab));
  }
  std::span<const int32_t> tokens(int64_t begin, int64_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  std::string path_;
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

/// Memory and threads are the same for all instruction sets, so one is enough with sanitizers. tests/cpu runs all sets.
std::vector<std::string> tested_isas() {
  std::vector<std::string> isas = isa::usable_isas();
  if (!testing::runs_all_cases()) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits,
                         ::testing::Combine(::testing::ValuesIn(tested_isas()),
                                            ::testing::Values("story", "llama-dense", "llama-moe")),
                         [](const auto& instance) {
                           const std::string name = std::get<1>(instance.param);
                           const char* model = name == "llama-dense" ? "_llama_dense"
                                               : name == "llama-moe" ? "_llama_moe"
                                                                     : "_stories";
                           return std::get<0>(instance.param) + model;
                         });

// Every micro-batch passes some hundred barriers, and each may wait for a time slice on a busy machine with few CPUs.
// Therefore not all pairs are tested, and the smallest micro-batches only with one thread.
TEST_P(SameBits, ForAnyMicroBatchAndNumberOfThreads) {
  for (const auto& [n_ubatch, n_threads] :
       {std::pair<int64_t, int>{1, 1}, {7, 1}, {64, 1}, {512, 1}, {7, 2}, {64, 2}, {512, 2}, {64, 3}, {512, 3}}) {
    if (!testing::runs_all_cases() && n_ubatch == 1) continue;  // a hundred micro-batches
    ASSERT_OK_AND_ASSIGN(const auto session, open(n_ubatch, n_threads));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens_));
    ASSERT_TRUE(same_bits(logits, expected_)) << n_ubatch << " per micro-batch, " << n_threads << " threads";
  }
}

TEST_P(SameBits, TokenByTokenAfterAPrompt) {
  for (const int n_threads : {1, 2, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto session, open(512, n_threads));
    ASSERT_OK(session->decode(Batch::prompt(tokens(0, 104), 0, 0)));
    for (int32_t p = 104; p < kSameBitsTokens; ++p) {
      ASSERT_OK(session->decode(Batch::prompt(tokens(p, p + 1), p, 0)));
      ASSERT_TRUE(same_bits(session->logits(0), rows(p, p + 1))) << "position " << p << ", " << n_threads << " threads";
    }
  }
}

TEST_P(SameBits, WhetherOneTokensLogitsAreWantedOrAll) {
  ASSERT_OK_AND_ASSIGN(const auto session, open());
  ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(kSameBitsTokens - 1, kSameBitsTokens)));
}

TEST_P(SameBits, BesideOtherSequencesInAnyOrder) {
  Rng rng(1);
  ASSERT_OK_AND_ASSIGN(const auto session, open(512, 2, 3));
  std::vector<BatchToken> mixed;
  for (int32_t s = 0; s < 3; ++s) {
    const auto ids = s == 1 ? tokens_ : token_ids(*engine_, kSameBitsTokens, static_cast<uint32_t>(10 + s));
    const Batch batch = all_logits(ids, 0, s);
    mixed.insert(mixed.end(), batch.tokens().begin(), batch.tokens().end());
  }
  for (size_t i = mixed.size(); i > 1; --i) std::swap(mixed[i - 1], mixed[rng.next_u32() % i]);
  Batch batch;
  for (const BatchToken& t : mixed) batch.add(t);
  ASSERT_OK(session->decode(batch));
  for (size_t i = 0; i < mixed.size(); ++i)
    if (mixed[i].sequence == 1) {
      ASSERT_TRUE(same_bits(session->logits(static_cast<int64_t>(i)), rows(mixed[i].position, mixed[i].position + 1)))
          << "position " << mixed[i].position;
    }
}

TEST_P(SameBits, InterleavedAcrossMicroBatches) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(7, 1, 2));
  const auto other = token_ids(*engine_, kSameBitsTokens, 5);
  Batch batch;
  for (int32_t p = 0; p < kSameBitsTokens; ++p) {
    batch.add({.token = other[static_cast<size_t>(p)], .position = p, .sequence = 0});
    batch.add({.token = tokens_[static_cast<size_t>(p)], .position = p, .sequence = 1, .wants_logits = true});
  }
  ASSERT_OK(session->decode(batch));
  EXPECT_TRUE(same_bits(all_rows(*session), expected_));
}

TEST_P(SameBits, AfterPartsAreRemovedAndDecodedAgain) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(7, 2));
  ASSERT_OK(session->decode(all_logits(tokens_)));
  for (const auto& [begin, end] : {std::pair<int32_t, int32_t>{90, 110}, {30, 80}, {0, 110}, {63, 65}, {5, 6}}) {
    ASSERT_OK(session->remove(0, begin, end));
    ASSERT_OK(session->decode(all_logits(tokens(begin, end), begin)));
    ASSERT_TRUE(same_bits(all_rows(*session), rows(begin, end))) << begin << " to " << end;
    // Later tokens attend to the part that was decoded again.
    ASSERT_OK(session->remove(0, 109, 110));
    ASSERT_OK(session->decode(all_logits(tokens(109, 110), 109)));
    ASSERT_TRUE(same_bits(all_rows(*session), rows(109, 110))) << begin << " to " << end;
  }
}

TEST_P(SameBits, AfterOtherTextsWereInTheCache) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 1));
  ASSERT_OK(session->decode(all_logits(token_ids(*engine_, kSameBitsTokens, 77))));
  ASSERT_OK(session->clear());
  ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens_));
  EXPECT_TRUE(same_bits(logits, expected_));
}

TEST_P(SameBits, AfterACopyThatDiverges) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 2, 3));
  ASSERT_OK(session->decode(all_logits(tokens(0, 70), 0, 0)));
  ASSERT_OK(session->copy(0, 1, 0, 70));
  ASSERT_OK(session->copy(0, 2, 0, 70));
  // Both sequences write into the block that they share. The third continues to read it.
  ASSERT_OK(session->decode(all_logits(token_ids(*engine_, 40, 9), 70, 0)));
  ASSERT_OK(session->decode(all_logits(tokens(70, 110), 70, 1)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(70, 110)));
  ASSERT_OK(session->remove(0, 0, 128));
  ASSERT_OK(session->decode(all_logits(tokens(70, 110), 70, 2)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(70, 110)));
}

TEST_P(SameBits, AfterACopyIntoABlockOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(7, 1, 2));
  ASSERT_OK(session->decode(all_logits(tokens_, 0, 0)));
  ASSERT_OK(session->decode(all_logits(tokens(0, 10), 0, 1)));
  ASSERT_OK(session->copy(0, 1, 10, 109));  // cells 10 to 63 are copied, the second block is shared
  ASSERT_OK(session->decode(all_logits(tokens(109, 110), 109, 1)));
  EXPECT_TRUE(same_bits(all_rows(*session), rows(109, 110)));
}

TEST_P(SameBits, WhetherWeightsArePackedOrMapped) {
  for (const bool pack : {true, false})
    for (const LoadMode load : {LoadMode::mmap, LoadMode::read}) {
      ASSERT_OK_AND_ASSIGN(
          engine_, load_engine(path_, {.load = load, .pack_weights = pack, .threads = {.n_threads = 2}}, isa()));
      ASSERT_OK_AND_ASSIGN(const auto session, open(64, 2));
      ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens_));
      ASSERT_TRUE(same_bits(logits, expected_)) << "packed " << pack << ", load mode " << static_cast<int>(load);
    }
}

TEST_P(SameBits, AfterASavedStateIsRestored) {
  ASSERT_OK_AND_ASSIGN(const auto session, open(64, 1, 2));
  ASSERT_OK(session->decode(all_logits(tokens(0, 80))));
  ASSERT_OK_AND_ASSIGN(const auto state, session->save_state(0));
  ASSERT_OK_AND_ASSIGN(const auto fresh, open(7, 2, 2));
  ASSERT_OK(fresh->decode(all_logits(token_ids(*engine_, 30, 3), 0, 1)));  // replaces the sequence
  ASSERT_OK(fresh->restore_state(1, state));
  ASSERT_OK(fresh->decode(all_logits(tokens(80, 110), 80, 1)));
  EXPECT_TRUE(same_bits(all_rows(*fresh), rows(80, 110)));
}

// --- other types of weights and caches: llama-dense, whose heads have 32 elements

struct TypeCase {
  DType weights, k, v;
};

class SameBitsOfTypes : public ::testing::TestWithParam<std::tuple<std::string, TypeCase>> {};

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string, TypeCase>>& instance) {
  const auto& [isa, types] = instance.param;
  return fmt::format("{}_{}_{}_{}", isa, info(types.weights).name, info(types.k).name, info(types.v).name);
}

INSTANTIATE_TEST_SUITE_P(Types, SameBitsOfTypes,
                         ::testing::Combine(::testing::ValuesIn(tested_isas()),
                                            ::testing::Values(TypeCase{DType::f32, DType::f32, DType::f32},
                                                              TypeCase{DType::f16, DType::f16, DType::f16},
                                                              TypeCase{DType::bf16, DType::bf16, DType::bf16},
                                                              TypeCase{DType::q8_0, DType::q8_0, DType::q8_0},
                                                              TypeCase{DType::q4_0, DType::q8_0, DType::f16},
                                                              TypeCase{DType::f32, DType::f16, DType::q8_0},
                                                              TypeCase{DType::f32, DType::q4_0, DType::q5_1},
                                                              TypeCase{DType::f32, DType::q5_0, DType::q4_1},
                                                              TypeCase{DType::f32, DType::q5_1, DType::iq4_nl},
                                                              TypeCase{DType::f32, DType::iq4_nl, DType::q4_0},
                                                              TypeCase{DType::f32, DType::q4_1, DType::q5_0})),
                         case_name);

TEST_P(SameBitsOfTypes, ForAnySplitThreadsAndPacking) {
  const std::string original = arch_model("llama-dense");
  const auto& [isa, types] = GetParam();
  ASSERT_OK_AND_ASSIGN(const std::string path, requantize(original, types.weights, "llama.gguf"));
  std::vector<float> expected;
  for (const bool pack : {true, false}) {
    ASSERT_OK_AND_ASSIGN(const auto engine,
                         load_engine(path, {.pack_weights = pack, .threads = {.n_threads = 2}}, isa));
    const auto tokens = token_ids(*engine, kSameBitsTokens);
    for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 1}, {64, 3}}) {
      if (!testing::runs_all_cases() && n_ubatch == 1) continue;  // a hundred micro-batches
      ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 128,
                                                                        .n_ubatch = n_ubatch,
                                                                        .n_outputs = kSameBitsTokens,
                                                                        .type_k = types.k,
                                                                        .type_v = types.v,
                                                                        .threads = {.n_threads = n_threads}}));
      ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens));
      if (expected.empty()) expected = logits;
      ASSERT_TRUE(same_bits(logits, expected))
          << "packed " << pack << ", " << n_ubatch << ", " << n_threads << " threads";
      ASSERT_OK_AND_ASSIGN(const auto state, session->save_state(0));
      ASSERT_OK(session->restore_state(0, state));
      ASSERT_OK(session->remove(0, 109, 110));
      ASSERT_OK(session->decode(all_logits(std::span(tokens).last(1), 109)));
      ASSERT_TRUE(same_bits(session->logits(0), std::span(expected).last(session->logits(0).size())));
    }
  }
}

class SameBitsOfExperts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Isa, SameBitsOfExperts, ::testing::ValuesIn(tested_isas()));

// The batch determines the tokens that share an expert's product, but it does not change the bits.
TEST_P(SameBitsOfExperts, ForAnySplitThreadsAndPacking) {
  const std::string original = arch_model("llama-moe");
  for (const DType dtype : {DType::f16, DType::q8_0, DType::q4_0, DType::q5_1}) {
    if (!testing::runs_all_cases() && dtype != DType::q8_0) continue;
    ASSERT_OK_AND_ASSIGN(const std::string path, requantize(original, dtype, "moe.gguf"));
    std::vector<float> expected;
    for (const bool pack : {true, false}) {
      ASSERT_OK_AND_ASSIGN(const auto engine,
                           load_engine(path, {.pack_weights = pack, .threads = {.n_threads = 2}}, GetParam()));
      for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 1}, {2, 2}, {7, 2}, {64, 3}}) {
        if (!testing::runs_all_cases() && n_ubatch == 1) continue;  // a hundred micro-batches
        ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 128,
                                                                          .n_ubatch = n_ubatch,
                                                                          .n_outputs = kSameBitsTokens,
                                                                          .threads = {.n_threads = n_threads}}));
        ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, token_ids(*engine, kSameBitsTokens)));
        if (expected.empty()) expected = logits;
        ASSERT_TRUE(same_bits(logits, expected))
            << info(dtype).name << ", packed " << pack << ", " << n_ubatch << ", " << n_threads << " threads";
      }
    }
  }
}

TEST(CacheTypes, AreCloseToF32) {
  const std::string path = arch_model("llama-dense");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  const auto tokens = token_ids(*engine, kSameBitsTokens);
  const auto logits = [&](DType dtype) -> Result<std::vector<float>> {
    TESSERA_ASSIGN(
        const auto session,
        Session::create(engine, {.n_ctx = 128, .n_outputs = kSameBitsTokens, .type_k = dtype, .type_v = dtype}));
    return logits_of(*session, tokens);
  };
  ASSERT_OK_AND_ASSIGN(const auto exact, logits(DType::f32));
  double magnitude = 0;
  for (const float v : exact) magnitude = std::max(magnitude, std::abs(double{v}));
  // Rounding K and V by r changes the logits by a few times r of their size over two layers. r is 2^-11 for f16, 2^-8
  // for bf16, and up to 1/254 of a block's largest value for q8_0. It is 8 and 16 times that for five and four bits.
  for (const auto& [dtype, bound] : {std::pair{DType::f16, 0.004},
                                     {DType::bf16, 0.03},
                                     {DType::q8_0, 0.03},
                                     {DType::q5_0, 0.2},
                                     {DType::q5_1, 0.2},
                                     {DType::q4_0, 0.4},
                                     {DType::q4_1, 0.4},
                                     {DType::iq4_nl, 0.4}}) {
    ASSERT_OK_AND_ASSIGN(const auto rounded, logits(dtype));
    double largest = 0;
    for (size_t i = 0; i < exact.size(); ++i) largest = std::max(largest, std::abs(double{exact[i]} - rounded[i]));
    EXPECT_LT(largest, bound * magnitude) << info(dtype).name;
    EXPECT_GT(largest, 0) << info(dtype).name;  // the type was used
  }
}

}  // namespace
}  // namespace tessera
