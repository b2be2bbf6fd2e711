// T5 as tiny files of random weights. The encoder's embeddings and the decoder's logits are compared with the formulas
// in double precision and must have the same bits for any batching of the tokens.
#include "tests/support/tiny_t5.h"

#include "tessera/engine/embedding.h"
#include "tests/support/documented_operations.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr size_t kTokens = 150;  // beyond the last bucket, and in three blocks of the cache
constexpr size_t kPrompt = 70;

// --- the encoder

void check_encoder(TinyT5 tiny) {
  const std::string path = tiny.write("t5.gguf");
  expect_documented(path, "formulas");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(
          engine,
          {.n_ubatch = 256, .n_outputs = kTokens, .embeddings = true, .type_k = DType::f32, .type_v = DType::f32}));
  const std::vector<int32_t> tokens = token_ids(*engine, kTokens);
  ASSERT_OK(session->decode(all_logits(tokens)));
  const Rows expected = tiny.encode(tokens);
  for (size_t t = 0; t < kTokens; ++t)
    for (size_t i = 0; i < TinyT5::kWidth; ++i)
      ASSERT_NEAR(session->embedding(static_cast<int64_t>(t))[i], expected[t][i], 1e-4) << t;  // f32 against double
}

TEST(T5, EncoderWithGatesIsWhatTheFormulasSay) { check_encoder(TinyT5("t5encoder")); }

TEST(T5, EncoderWithReluIsWhatTheFormulasSay) { check_encoder(TinyT5("t5encoder", false)); }

TEST(T5, EmbeddingsOfAModelWithADecoderAreTheEncoders) { check_encoder(TinyT5("t5")); }

TEST(T5, ATextIsTheSameBitsBesideAnother) {
  TinyT5 tiny("t5encoder");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(engine,
                      {.n_ctx = 512, .n_ubatch = 256, .n_sequences = 3, .n_outputs = kTokens + 7, .embeddings = true}));
  const std::vector<int32_t> tokens = token_ids(*engine, kTokens);
  ASSERT_OK(session->decode(all_logits(tokens)));
  const std::vector<float> alone = all_rows(*session);
  Batch batch = all_logits(std::span(tokens).first(7), 0, 1);
  const Batch second = all_logits(tokens, 0, 2);
  for (const BatchToken& token : second.tokens()) batch.add(token);
  ASSERT_OK(session->decode(batch));
  const std::vector<float> together = all_rows(*session);
  EXPECT_TRUE(same_bits(std::span(together).subspan(7 * TinyT5::kWidth), alone));
}

TEST(T5, EmbeddingsOfAModelWithADecoderAreOfWholeTexts) {
  TinyT5 tiny("t5");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  const std::vector<std::vector<int32_t>> texts = {token_ids(*engine, 100), token_ids(*engine, 30, 2)};
  SessionOptions given;
  given.n_ubatch = 16;  // less than the length of a text
  ASSERT_OK_AND_ASSIGN(const auto options, embedding_session(*engine, texts, nn::Pooling::mean, given));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
  const auto expect_mean = [&](size_t i, std::span<const float> values) -> Result<> {
    const Rows rows = tiny.encode(texts[i]);
    for (size_t c = 0; c < values.size(); ++c) {
      double mean = 0;
      for (const Vec& row : rows) mean += row[c] / static_cast<double>(rows.size());
      EXPECT_NEAR(values[c], mean, 2e-3);  // an f16 cache
    }
    return {};
  };
  ASSERT_OK(embed(*session, texts, nn::Pooling::mean, expect_mean, nullptr));
}

// --- the decoder

Result<std::unique_ptr<Session>> open(const std::shared_ptr<Engine>& engine, int64_t n_ubatch = 256,
                                      int n_threads = 2) {
  return Session::create(engine, {.n_ctx = 256,
                                  .n_ubatch = n_ubatch,
                                  .n_sequences = 3,
                                  .n_outputs = 2 * kTokens,
                                  .type_k = DType::f32,
                                  .type_v = DType::f32,
                                  .threads = {.n_threads = n_threads}});
}

void check_decoder(TinyT5 tiny) {
  const std::string path = tiny.write("t5.gguf");
  expect_documented(path, "formulas");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, open(engine));
  const std::vector<int32_t> tokens = token_ids(*engine, kTokens);
  for (const size_t n_prompt : {kPrompt, size_t{1}, kTokens}) {
    const std::vector<int32_t> prompt = token_ids(*engine, static_cast<int64_t>(n_prompt), 5);
    ASSERT_OK(session->clear());
    ASSERT_OK(session->encode(0, prompt));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens));
    const Rows expected = tiny.decode(tiny.encode(prompt), tokens);
    double error = 0, power = 0;
    for (size_t t = 0; t < kTokens; ++t)
      for (size_t i = 0; i < TinyT5::kVocab; ++i) {
        const double difference = logits[t * TinyT5::kVocab + i] - expected[t][i];
        error += difference * difference;
        power += expected[t][i] * expected[t][i];
      }
    EXPECT_LE(error / power, 1e-11);  // f32 against double: relative errors of about 1e-7, squared
    EXPECT_GT(power, 1);
  }
}

TEST(T5, DecoderIsWhatTheFormulasSay) { check_decoder(TinyT5("t5")); }

TEST(T5, DecoderWithReluIsWhatTheFormulasSay) { check_decoder(TinyT5("t5", false)); }

TEST(T5, AnOutputLayerThatIsTheEmbeddingTakesScaledRows) { check_decoder(TinyT5("t5", true, true)); }

class T5Sessions : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(tiny_.write("t5.gguf")));
    ASSERT_OK_AND_ASSIGN(session_, open(engine_));
    prompt_ = token_ids(*engine_, kPrompt, 5);
    tokens_ = token_ids(*engine_, kTokens);
  }

  Result<std::vector<float>> logits(const std::vector<int32_t>& prompt) {
    TESSERA_TRY(session_->clear());
    TESSERA_TRY(session_->encode(0, prompt));
    return logits_of(*session_, tokens_);
  }

  TinyT5 tiny_{"t5"};
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t> prompt_, tokens_;
};

TEST_F(T5Sessions, BitsAreTheSameInPiecesAndWithOtherThreads) {
  ASSERT_OK_AND_ASSIGN(const auto expected, logits(prompt_));
  for (const int n_threads : {1, 3}) {
    ASSERT_OK_AND_ASSIGN(session_, open(engine_, kPrompt, n_threads));
    ASSERT_OK_AND_ASSIGN(const auto in_parts, logits(prompt_));
    EXPECT_TRUE(same_bits(in_parts, expected)) << n_threads;
    ASSERT_OK(session_->remove(0, 0, kTokens));
    std::vector<float> one_by_one;
    for (int32_t p = 0; p < static_cast<int32_t>(kTokens); ++p) {
      ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens_).subspan(static_cast<size_t>(p), 1), p, 0)));
      one_by_one.insert(one_by_one.end(), session_->logits(0).begin(), session_->logits(0).end());
    }
    EXPECT_TRUE(same_bits(one_by_one, expected)) << n_threads;
  }
}

TEST_F(T5Sessions, SequencesHavePromptsOfTheirOwn) {
  const std::vector<int32_t> other = token_ids(*engine_, 9, 8);
  const auto n = tokens_.size() / 2;
  tokens_.resize(n);
  ASSERT_OK_AND_ASSIGN(const auto of_prompt, logits(prompt_));
  ASSERT_OK_AND_ASSIGN(const auto of_other, logits(other));
  EXPECT_FALSE(same_bits(of_prompt, of_other));
  ASSERT_OK(session_->clear());
  ASSERT_OK(session_->encode(2, other));
  ASSERT_OK(session_->encode(1, other));
  ASSERT_OK(session_->encode(1, prompt_));  // replaces the prompt
  Batch batch;
  for (size_t t = 0; t < n; ++t)
    for (const int32_t sequence : {1, 2})
      batch.add({.token = tokens_[t], .position = static_cast<int32_t>(t), .sequence = sequence, .wants_logits = true});
  ASSERT_OK(session_->decode(batch));
  for (size_t t = 0; t < n; ++t) {
    const auto expected = [&](const std::vector<float>& rows) {
      return std::span(rows).subspan(t * TinyT5::kVocab, TinyT5::kVocab);
    };
    const auto i = static_cast<int64_t>(2 * t);
    ASSERT_TRUE(same_bits(session_->logits(i), expected(of_prompt))) << t;
    ASSERT_TRUE(same_bits(session_->logits(i + 1), expected(of_other))) << t;
  }
}

TEST_F(T5Sessions, ACopyHasThePromptToo) {
  tokens_.resize(40);
  ASSERT_OK_AND_ASSIGN(const auto expected, logits(prompt_));
  ASSERT_OK(session_->encode(1, std::span(prompt_).first(3)));
  ASSERT_OK(session_->copy(0, 1, 0, 30));
  ASSERT_OK(session_->copy(0, 0, 0, 30));
  ASSERT_OK(session_->encode(0, std::span(prompt_).first(2)));  // the copy does not change
  ASSERT_OK(session_->decode(all_logits(std::span(tokens_).subspan(30), 30, 1)));
  EXPECT_TRUE(same_bits(all_rows(*session_), std::span(expected).last(10 * TinyT5::kVocab)));
}

TEST_F(T5Sessions, KeepForgetsTheOthersPrompts) {
  ASSERT_OK(session_->encode(0, prompt_));
  ASSERT_OK(session_->encode(1, prompt_));
  ASSERT_OK(session_->keep(1));
  ASSERT_OK(session_->decode(Batch::prompt(tokens_, 0, 1)));
  EXPECT_ERROR(session_->decode(Batch::prompt(tokens_, 0, 0)),
               "t5: sequence 0 has no prompt that the encoder has read");
}

TEST_F(T5Sessions, ATokenWithoutAPromptIsRefused) {
  EXPECT_ERROR(session_->decode(Batch::prompt(tokens_, 0, 0)),
               "t5: sequence 0 has no prompt that the encoder has read");
  ASSERT_OK(session_->encode(0, prompt_));
  ASSERT_OK(session_->decode(Batch::prompt(tokens_, 0, 0)));
  ASSERT_OK(session_->clear());
  EXPECT_ERROR(session_->decode(Batch::prompt(tokens_, 0, 0)),
               "t5: sequence 0 has no prompt that the encoder has read");
}

TEST_F(T5Sessions, PromptsThatCannotBeReadAreRefused) {
  const auto expect_refused = [&](int32_t sequence, std::span<const int32_t> tokens, const std::string& why) {
    ASSERT_OK(session_->encode(0, prompt_));
    EXPECT_ERROR(session_->encode(sequence, tokens), why);
    const bool is_kept = sequence != 0;
    EXPECT_EQ(session_->decode(Batch::prompt(std::span(tokens_).first(1), 0, 0)).has_value(), is_kept) << why;
    ASSERT_OK(session_->clear());
  };
  expect_refused(3, prompt_, "sequence 3, want 0 to 2");
  expect_refused(0, {}, "the prompt has no tokens");
  expect_refused(0, std::vector<int32_t>{1, TinyT5::kVocab}, "token 30 at position 1, want 0 to 29");
  ASSERT_OK_AND_ASSIGN(session_, open(engine_, kPrompt));
  expect_refused(0, token_ids(*engine_, kPrompt + 1),
                 "a prompt of 71 tokens, micro-batch of 70 (option n_ubatch): an encoder computes a prompt at once");
}

TEST_F(T5Sessions, ACancelledPromptIsNone) {
  CancelToken cancel;
  cancel.cancel();
  EXPECT_ERROR(session_->encode(0, prompt_, &cancel), "");
  EXPECT_ERROR(session_->decode(Batch::prompt(tokens_, 0, 0)), "has no prompt");
  ASSERT_OK(logits(prompt_));
}

TEST_F(T5Sessions, PlanIsWhatIsAllocated) {
  for (const int64_t n_ubatch : {1, 70, 256}) {
    const SessionOptions options{.n_ubatch = n_ubatch, .n_sequences = 2, .n_outputs = 5};
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, options));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
    const auto expect_planned = [&] {
      const MemoryReport allocated = session->allocated_memory();
      ASSERT_EQ(allocated.parts.size(), plan.parts.size());
      for (size_t i = 0; i < plan.parts.size(); ++i) EXPECT_EQ(allocated.parts[i].bytes, plan.parts[i].bytes) << i;
    };
    expect_planned();
    ASSERT_OK(session->encode(0, std::span(prompt_).first(static_cast<size_t>(std::min<int64_t>(n_ubatch, kPrompt)))));
    ASSERT_OK(session->decode(Batch::prompt(tokens_, 0, 0)));
    ASSERT_OK(session->remove(0, 5, 10));
    ASSERT_OK(session->shift(0, 10, 150, -5));
    expect_planned();
  }
}

TEST_F(T5Sessions, AStateHasThePromptToo) {
  tokens_.resize(40);
  ASSERT_OK_AND_ASSIGN(const auto expected, logits(prompt_));
  ASSERT_OK(session_->remove(0, 30, 40));
  ASSERT_OK_AND_ASSIGN(const auto state, session_->save_state(0));
  ASSERT_OK_AND_ASSIGN(session_, open(engine_, 256, 1));
  ASSERT_OK(session_->encode(1, token_ids(*engine_, 100, 3)));
  ASSERT_OK(session_->decode(Batch::prompt(tokens_, 0, 1)));
  const auto expect_other = [&] {
    ASSERT_OK(session_->decode(all_logits(std::span(tokens_).subspan(30), 50, 1)));
    ASSERT_OK(session_->remove(1, 50, 60));
    EXPECT_FALSE(same_bits(all_rows(*session_), std::span(expected).last(10 * TinyT5::kVocab)));
  };
  for (const size_t missing : {size_t{1}, state.size() / 2}) {
    EXPECT_ERROR(session_->restore_state(1, std::span(state).first(state.size() - missing)), "state: ");
    expect_other();
  }
  ASSERT_OK(session_->restore_state(1, state));
  ASSERT_OK(session_->decode(all_logits(std::span(tokens_).subspan(30), 30, 1)));
  EXPECT_TRUE(same_bits(all_rows(*session_), std::span(expected).last(10 * TinyT5::kVocab)));
}

TEST_F(T5Sessions, AStateWhosePromptDoesNotFitChangesNothing) {
  ASSERT_OK(session_->encode(0, prompt_));
  ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens_).first(5), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto state, session_->save_state(0));
  ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = 64, .type_k = DType::f32, .type_v = DType::f32}));
  ASSERT_OK(session_->encode(0, std::span(prompt_).first(10)));
  ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens_).first(7), 0, 0)));
  EXPECT_ERROR(session_->restore_state(0, state), "state");
  EXPECT_EQ(session_->max_position(0), 6);
  ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens_).first(1), 7, 0)));
}

TEST_F(T5Sessions, OtherModelsHaveNoPrompts) {
  TinyT5 encoder("t5encoder");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(encoder.write("encoder.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.embeddings = true}));
  EXPECT_ERROR(session->encode(0, prompt_), "t5encoder: no encoder beside the decoder");
}

// --- files

TEST(T5, BucketsAreAMultipleOfFour) {
  TinyT5 tiny("t5");
  tiny.key("attention.relative_buckets_count", 30);
  EXPECT_ERROR(load_engine(tiny.write("t5.gguf")),
               "key 't5.attention.relative_buckets_count': 30, want a multiple of 4");
}

TEST(T5, RefusesSharedKvHeads) {
  TinyT5 tiny("t5");
  tiny.key("attention.head_count_kv", 1);
  EXPECT_ERROR(load_engine(tiny.write("t5.gguf")), "share KV heads");
}

TEST(T5, TheStartTokenIsOfTheVocabulary) {
  TinyT5 tiny("t5");
  tiny.key("decoder_start_token_id", TinyT5::kVocab);
  EXPECT_ERROR(load_engine(tiny.write("t5.gguf")), "key 't5.decoder_start_token_id': 30, want 0 to 29");
}

TEST(T5, StacksAreOfOneLengthUnlessAKeySaysOtherwise) {
  TinyT5 tiny("t5");
  tiny.builder.remove("t5.decoder_block_count");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  EXPECT_EQ(engine->model().info().n_layers, TinyT5::kLayers);
}

}  // namespace
}  // namespace tessera
