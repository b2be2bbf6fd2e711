// The BERT family as tiny files of random weights. The embeddings of all tokens are compared with the formulas in
// double precision. Files with missing or unexpected parts are refused.
#include "tests/support/documented_operations.h"
#include "tests/support/engine_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;

std::vector<int32_t> some_tokens(size_t n, int32_t step) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i)
    tokens.push_back(
        static_cast<int32_t>((i * static_cast<size_t>(step) + 2) % static_cast<size_t>(TinyEncoder::n_vocab())));
  return tokens;
}

class EncoderModels : public ::testing::TestWithParam<const char*> {};

// f32 throughout, so the difference is the rounding of sums of some tens of terms, in four layers.
constexpr double kTolerance = 2e-4;

void check(TinyEncoder& tiny) {
  const std::string path = tiny.write("encoder.gguf");
  expect_documented(path, "formulas");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 256,
                                                                    .n_ubatch = 96,
                                                                    .n_sequences = 2,
                                                                    .n_outputs = 96,
                                                                    .embeddings = true,
                                                                    .type_k = DType::f32,
                                                                    .type_v = DType::f32}));
  // More tokens than a block of the cache, with another sequence beside it.
  for (const auto& [n, sequence] : {std::pair{70, 0}, std::pair{1, 1}, std::pair{11, 1}}) {
    const std::vector<int32_t> tokens = some_tokens(static_cast<size_t>(n), 7 + sequence);
    ASSERT_OK(session->remove(sequence, 0, 256));
    ASSERT_OK(session->decode(all_logits(tokens, 0, sequence)));
    const Rows expected = tiny.forward(tokens);
    ASSERT_EQ(session->n_outputs(), n);
    for (int64_t t = 0; t < n; ++t) {
      const std::span<const float> row = session->embedding(t);
      ASSERT_EQ(row.size(), static_cast<size_t>(TinyEncoder::kWidth));
      for (size_t i = 0; i < row.size(); ++i)
        ASSERT_NEAR(row[i], expected[static_cast<size_t>(t)][i], kTolerance) << "token " << t << " of " << n;
    }
  }
}

TEST_P(EncoderModels, EmbeddingsAreWhatTheFormulasSay) {
  TinyEncoder tiny(GetParam());
  check(tiny);
}

TEST_P(EncoderModels, GiveNoLogits) {
  TinyEncoder tiny(GetParam());
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("encoder.gguf")));
  EXPECT_ERROR(Session::create(engine, {}), "which gives embeddings but no logits");
}

INSTANTIATE_TEST_SUITE_P(All, EncoderModels, ::testing::Values("bert", "nomic-bert", "modern-bert"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Encoders, TokenTypesMustBeAsManyAsTheKeySays) {
  TinyEncoder tiny("bert");
  tiny.builder.set("tokenizer.ggml.token_type_count", uint32_t{0});
  EXPECT_ERROR(load_engine(tiny.write("none.gguf")), "key 'tokenizer.ggml.token_type_count': 0, want 1 to 65536");
  TinyEncoder other("bert");
  other.builder.set("tokenizer.ggml.token_type_count", uint32_t{3});
  EXPECT_ERROR(load_engine(other.write("three.gguf")),
               "tensor token_types.weight is [24, 2], the model's keys want [24, 3]");
  TinyEncoder third("nomic-bert");
  third.builder.remove("tokenizer.ggml.token_type_count");
  EXPECT_ERROR(load_engine(third.write("absent.gguf")), "tokenizer.ggml.token_type_count");
}

TEST(Encoders, ModernBertsActivationIsAKey) {
  TinyEncoder tiny("modern-bert");
  tiny.key("hidden_activation", "silu");
  tiny.is_silu = true;
  check(tiny);
}

TEST(Encoders, ModernBertsPatternOfWindowsIsAKey) {
  TinyEncoder tiny("modern-bert");
  tiny.key("attention.sliding_window_pattern", uint32_t{2});
  tiny.period = 2;
  check(tiny);
}

}  // namespace
}  // namespace tessera
