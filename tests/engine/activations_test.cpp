// Precision of activations in products with quantized weights: floats, or int8 in groups of a chosen size. Tests the
// same bits for any split, the planned memory, and smaller errors with smaller groups.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kActivationTokens = 70;
constexpr ActivationPrecision kAll[] = {ActivationPrecision::automatic, ActivationPrecision::float32,
                                        ActivationPrecision::int8_32, ActivationPrecision::int8_64,
                                        ActivationPrecision::int8_128};

SessionOptions options(ActivationPrecision activations, int64_t n_ubatch = 512, int n_threads = 1) {
  return {.n_ctx = 128,
          .n_ubatch = n_ubatch,
          .n_outputs = kActivationTokens,
          .activations = activations,
          .threads = {.n_threads = n_threads}};
}

Result<std::vector<float>> run(const std::shared_ptr<Engine>& engine, const SessionOptions& options) {
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  return logits_of(*session, token_ids(*engine, kActivationTokens));
}

class SessionActivations : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::string path = arch_model("llama-dense");
    ASSERT_OK_AND_ASSIGN(path_, requantize(path, GetParam(), "activations.gguf"));
  }
  std::string path_;
};

INSTANTIATE_TEST_SUITE_P(Types, SessionActivations, ::testing::Values(DType::q4_0, DType::q8_0, DType::f16),
                         [](const auto& instance) { return std::string(tessera::info(instance.param).name); });

TEST_P(SessionActivations, GiveTheSameBitsForAnyMicroBatchThreadsAndPacking) {
  for (const ActivationPrecision activations : {ActivationPrecision::float32, ActivationPrecision::int8_32}) {
    std::vector<float> expected;
    for (const bool pack : {true, false}) {
      ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path_, {.pack_weights = pack}));
      for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 1}, {7, 1}, {64, 2}, {512, 3}}) {
        if (!testing::runs_all_cases() && n_ubatch == 1) continue;  // a hundred micro-batches
        ASSERT_OK_AND_ASSIGN(const auto logits, run(engine, options(activations, n_ubatch, n_threads)));
        if (expected.empty()) expected = logits;
        ASSERT_TRUE(same_bits(logits, expected)) << "packed " << pack << ", " << n_ubatch << ", " << n_threads;
      }
    }
  }
}

TEST_P(SessionActivations, TakeTheMemoryThatWasPlanned) {
  for (const bool pack : {true, false}) {
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path_, {.pack_weights = pack}));
    for (const ActivationPrecision activations : kAll)
      for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{512, 1}, {1, 3}, {33, 3}}) {
        if (!testing::runs_all_cases() && n_ubatch == 1) continue;  // a hundred micro-batches
        ASSERT_OK_AND_ASSIGN(const MemoryReport plan,
                             Session::plan(*engine, options(activations, n_ubatch, n_threads)));
        ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options(activations, n_ubatch, n_threads)));
        ASSERT_OK(session->decode(all_logits(token_ids(*engine, kActivationTokens))));
        const MemoryReport allocated = session->allocated_memory();
        ASSERT_EQ(plan.parts.size(), allocated.parts.size());
        for (size_t i = 0; i < plan.parts.size(); ++i)
          EXPECT_EQ(plan.parts[i].bytes, allocated.parts[i].bytes) << plan.parts[i].buffer << ", packed " << pack;
      }
  }
}

TEST_P(SessionActivations, ChangeResultsOnlyOfTheWeightsThatTheyName) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path_));
  std::vector<std::vector<float>> logits;
  for (const ActivationPrecision activations : kAll) {
    ASSERT_OK_AND_ASSIGN(logits.emplace_back(), run(engine, options(activations)));
  }
  EXPECT_TRUE(same_bits(logits[0], logits[2]));  // groups of 32 are the default of these formats
  const bool is_quantized = info(GetParam()).is_blocked();
  for (size_t i = 1; i < logits.size(); ++i)
    for (size_t j = i + 1; j < logits.size(); ++j) {
      const bool differs = is_quantized || kAll[i] == ActivationPrecision::float32;
      EXPECT_NE(same_bits(logits[i], logits[j]), differs) << i << ", " << j;
    }
}

// Float activations compute with the dequantized weights, like a model with these as F32 weights. Only the order of
// roundings could differ, and it does not.
TEST_P(SessionActivations, AsFloatsAreTheModelOfDequantizedWeights) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path_));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path_));
  GgufBuilder builder;
  ASSERT_OK(builder.set_all(file->metadata()));
  std::vector<std::vector<std::byte>> data;
  for (const GgufTensor& tensor : file->tensors()) {
    ASSERT_OK(builder.add_tensor(tensor.name, DType::f32, tensor.shape));
    std::vector<float> values(static_cast<size_t>(tensor.shape.n_elements()));
    quant::find_format(tensor.dtype)
        ->dequantize_row(file->data(tensor).data(), tensor.shape.n_elements(), values.data());
    const auto bytes = std::as_bytes(std::span(values));
    data.emplace_back(bytes.begin(), bytes.end());
  }
  const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
  ASSERT_OK_AND_ASSIGN(const auto bytes, gguf_to_bytes(builder, spans));
  const std::string path =
      write_temporary("floats.gguf", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  ASSERT_OK_AND_ASSIGN(const auto floats, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto expected, run(floats, options(ActivationPrecision::automatic)));
  ASSERT_OK_AND_ASSIGN(const auto logits, run(engine, options(ActivationPrecision::float32)));
  EXPECT_TRUE(same_bits(logits, expected));
}

}  // namespace
}  // namespace tessera
