// The precision of attention that a model admits, and sessions with each.
#include "tessera/engine/attention_precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kTokens = 150;

/// Multiplies some values of an f32 tensor of a model file.
struct Change {
  const char* tensor;
  size_t first, n;
  float factor;
};

/// The precision of a session of a file of `architecture` whose matrices have `dtype`, after changes to its tensors.
AttentionPrecision precision_of(const std::string& architecture, DType dtype, std::vector<Change> changes = {},
                                const SessionOptions& options = {}) {
  EditableModel model(arch_model(architecture));
  for (const Change& change : changes) {
    const std::span<std::byte> bytes(model.tensor(change.tensor));
    if ((change.first + change.n) * sizeof(float) > bytes.size()) {
      ADD_FAILURE() << change.tensor << " has " << bytes.size() << " bytes";
      return AttentionPrecision::automatic;
    }
    for (size_t i = change.first; i < change.first + change.n; ++i) {
      float value;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      value *= change.factor;
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  }
  const auto path = requantize(model.write("attention.gguf"), dtype, "attention_q.gguf");
  EXPECT_OK(path);
  const auto engine = load_engine(*path);
  EXPECT_OK(engine);
  const auto session = Session::plan_session(**engine, options);
  EXPECT_OK(session);
  return (*session)->options().attention;
}

TEST(AttentionPrecision, IsInt16WhereKComesFromQuantizedWeights) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_EQ(precision_of("llama-dense", type), AttentionPrecision::float32) << info(type).name;
  for (const DType type : {DType::q8_0, DType::q4_0})
    EXPECT_EQ(precision_of("llama-dense", type), AttentionPrecision::int16) << info(type).name;
  for (const char* other : {"qwen2-dense", "qwen3-dense", "gpt2-dense", "falcon-dense", "olmo2-dense"})
    EXPECT_EQ(precision_of(other, DType::q8_0), AttentionPrecision::int16) << other;
  EXPECT_EQ(precision_of("deepseek2-moe", DType::q8_0), AttentionPrecision::float32) << "K from a latent vector";
}

TEST(AttentionPrecision, OptionsGoFirst) {
  EXPECT_EQ(precision_of("llama-dense", DType::q8_0, {}, {.attention = AttentionPrecision::float32}),
            AttentionPrecision::float32);
  EXPECT_EQ(precision_of("llama-dense", DType::f32, {}, {.attention = AttentionPrecision::int16}),
            AttentionPrecision::int16);
  EXPECT_EQ(precision_of("llama-dense", DType::q8_0, {}, {.activations = ActivationPrecision::float32}),
            AttentionPrecision::float32);
  EXPECT_EQ(precision_of("llama-dense", DType::q8_0, {}, {.activations = ActivationPrecision::int8_32}),
            AttentionPrecision::int16);
}

Shape shape_of(const std::string& architecture, std::string_view tensor) {
  const auto file = GgufFile::open(arch_model(architecture));
  EXPECT_OK(file);
  for (const GgufTensor& one : (*file)->tensors())
    if (one.name == tensor) return one.shape;
  ADD_FAILURE() << tensor;
  return {};
}

// Each change makes one channel of K 16 or 200 times larger: by its weights or its norm.
TEST(AttentionPrecision, IsF32IfAChannelOfKOutweighsTheOthers) {
  const auto expect_limit = [&](const std::string& architecture, Change change) {
    SCOPED_TRACE(architecture + " " + change.tensor);
    change.factor = 16;
    EXPECT_EQ(precision_of(architecture, DType::q8_0, {change}), AttentionPrecision::int16);
    change.factor = 200;
    EXPECT_EQ(precision_of(architecture, DType::q8_0, {change}), AttentionPrecision::float32);
  };
  const auto n = static_cast<size_t>(shape_of("llama-dense", "blk.1.attn_k.weight")[0]);
  expect_limit("llama-dense", {"blk.1.attn_k.weight", 3 * n, n, 0});
  expect_limit("qwen3-dense", {"blk.1.attn_k_norm.weight", 5, 1, 0});
  EXPECT_EQ(precision_of("qwen2-dense", DType::q8_0, {{"blk.0.attn_k.bias", 7, 1, 1e6f}}), AttentionPrecision::float32);
  EXPECT_EQ(precision_of("qwen2-dense", DType::q8_0, {{"blk.0.attn_v.bias", 7, 1, 1e6f}}), AttentionPrecision::int16);
}

TEST(AttentionPrecision, KMayBeAPartOfAMatrix) {
  const char* const qkv = "blk.0.attn_qkv.weight";
  const Shape shape = shape_of("gpt2-dense", qkv);
  const auto n = static_cast<size_t>(shape[0]), n_rows = static_cast<size_t>(shape[1]);
  const size_t first_k = n, first_v = n + (n_rows - n) / 2;  // Q has as many rows as columns
  const auto with_large_row = [&](size_t row) {
    return precision_of("gpt2-dense", DType::q8_0, {{qkv, row * n, n, 200}});
  };
  EXPECT_EQ(with_large_row(first_k - 1), AttentionPrecision::int16);
  EXPECT_EQ(with_large_row(first_k), AttentionPrecision::float32);
  EXPECT_EQ(with_large_row(first_v - 1), AttentionPrecision::float32);
  EXPECT_EQ(with_large_row(first_v), AttentionPrecision::int16);
}

TEST(AttentionPrecision, ComparesChannelsWithTheMedian) {
  const char* const k = "blk.0.attn_k.weight";
  const Shape shape = shape_of("llama-dense", k);
  const auto n = static_cast<size_t>(shape[0]), n_rows = static_cast<size_t>(shape[1]);
  const auto without_rows = [&](size_t n_zero) {
    return precision_of("llama-dense", DType::q8_0, {{k, 0, n_zero * n, 0}, {"blk.0.attn_k.bias", 0, n_zero, 0}});
  };
  EXPECT_EQ(without_rows(n_rows), AttentionPrecision::int16) << "all channels are 0";
  EXPECT_EQ(without_rows(n_rows - 1), AttentionPrecision::float32) << "one channel is not 0";
  EXPECT_EQ(without_rows(1), AttentionPrecision::int16);
}

class AttentionInSessions : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(CacheTypes, AttentionInSessions, ::testing::Values(DType::f32, DType::f16, DType::q8_0),
                         [](const auto& instance) { return std::string(tessera::info(instance.param).name); });

SessionOptions int16_options(DType cache, int64_t n_ubatch, int n_threads) {
  return {.n_ctx = 192,
          .n_ubatch = n_ubatch,
          .n_outputs = kTokens,
          .type_k = cache,
          .type_v = cache,
          .attention = AttentionPrecision::int16,
          .threads = {.n_threads = n_threads}};
}

TEST_P(AttentionInSessions, BitsFromIntegersDoNotDependOnMicroBatchesAndThreads) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("llama-dense")));
  std::vector<float> expected;
  for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 1}, {7, 1}, {64, 2}, {512, 3}}) {
    if (!runs_all_cases() && n_ubatch == 1) continue;
    const SessionOptions options = int16_options(GetParam(), n_ubatch, n_threads);
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, options));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, token_ids(*engine, kTokens)));
    if (expected.empty()) expected = logits;
    EXPECT_TRUE(same_bits(logits, expected)) << n_ubatch << ", " << n_threads;
    EXPECT_EQ(session->allocated_memory().total(), plan.total()) << n_ubatch << ", " << n_threads;
  }
}

TEST_P(AttentionInSessions, LogitsFromIntegersAreCloseToThoseInF32) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("llama-dense")));
  SessionOptions options = int16_options(GetParam(), 512, 1);
  ASSERT_OK_AND_ASSIGN(const auto rounded, Session::create(engine, options));
  options.attention = AttentionPrecision::float32;
  ASSERT_OK_AND_ASSIGN(const auto exact, Session::create(engine, options));
  ASSERT_OK_AND_ASSIGN(const auto got, logits_of(*rounded, token_ids(*engine, kTokens)));
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of(*exact, token_ids(*engine, kTokens)));
  double error = 0, power = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    power += std::pow(double{want[i]}, 2);
  }
  error /= power;
  EXPECT_LT(error, 1e-4);
  EXPECT_GT(error, 1e-10) << "nothing was rounded";
}

}  // namespace
}  // namespace tessera
