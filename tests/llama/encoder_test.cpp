// Encoders through llama.h: models that embed texts, and those that read a prompt for a decoder.
#include "tests/llama/llama_support.h"
#include "tests/support/engine_support.h"
#include "tests/support/tiny_encoder.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using namespace testing;

llama_context_params embedding_context(uint32_t n_seq_max) {
  llama_context_params params = small_context(256, n_seq_max);
  params.embeddings = true;
  params.pooling_type = 1;
  return params;
}

// The original aborts on this: mean pooling of several sequences.
TEST(LlamaEncoder, EmbedsSeveralSequences) {
  const LlamaModel model = load_llama(TinyEncoder("bert").write("bert.gguf"));
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(llama_model_has_decoder(model.get()));
  for (const bool unified : {false, true}) {
    llama_context_params params = embedding_context(3);
    params.kv_unified = unified;
    const LlamaContext context = create_llama(model.get(), params);
    ASSERT_NE(context, nullptr);
    EXPECT_EQ(llama_get_memory(context.get()), nullptr);
    const std::vector<std::vector<llama_token>> texts = {{1, 2, 3, 4}, {5, 6}, {1, 2, 3, 4}};
    LlamaTokens batch;
    for (size_t s = 0; s < texts.size(); ++s)
      for (size_t i = 0; i < texts[s].size(); ++i)
        batch.add(texts[s][i], static_cast<int32_t>(i), {static_cast<llama_seq_id>(s)}, true);
    for (int repetition = 0; repetition < 2; ++repetition) {  // nothing is stored
      ASSERT_EQ(
          repetition == 0 ? llama_decode(context.get(), batch.batch()) : llama_encode(context.get(), batch.batch()), 0);
      const float* first = llama_get_embeddings_seq(context.get(), 0);
      const float* second = llama_get_embeddings_seq(context.get(), 1);
      const float* third = llama_get_embeddings_seq(context.get(), 2);
      ASSERT_TRUE(first != nullptr && second != nullptr && third != nullptr);
      EXPECT_TRUE(std::equal(first, first + TinyEncoder::kWidth, third));
      EXPECT_FALSE(std::equal(first, first + TinyEncoder::kWidth, second));
    }
  }
}

TEST(LlamaEncoder, GivesNoLogits) {
  LogLines log;
  const LlamaModel model = load_llama(TinyEncoder("bert").write("bert.gguf"));
  const LlamaContext context = create_llama(model.get(), small_context(256, 1));  // embeddings all the same
  ASSERT_NE(context, nullptr);
  ASSERT_EQ(decode_all(context.get(), {1, 2, 3}), 0);
  EXPECT_NE(llama_get_embeddings_ith(context.get(), 0), nullptr);
  EXPECT_EQ(llama_get_logits(context.get()), nullptr);
  llama_set_embeddings(context.get(), false);
  EXPECT_EQ(decode_all(context.get(), {1, 2, 3}), 0);
  EXPECT_NE(llama_get_embeddings(context.get()), nullptr);
}

TEST(LlamaEncoder, ReadsAPromptForADecoder) {
  LogLines log;
  const std::string path = TinyT5("t5").write("t5.gguf");
  const LlamaModel model = load_llama(path);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(llama_model_has_encoder(model.get()));
  EXPECT_EQ(llama_model_decoder_start_token(model.get()), TinyT5::kStart);
  const LlamaContext context = create_llama(model.get(), small_context(256, 2));
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(decode_all(context.get(), {TinyT5::kStart}), -1);
  EXPECT_NE(log.take().find("llama_decode: "), std::string::npos);
  std::vector<llama_token> prompt = {4, 5, 6, 7};
  ASSERT_EQ(llama_encode(context.get(), llama_batch_get_one(prompt.data(), 4)), 0);
  ASSERT_EQ(decode_all(context.get(), {TinyT5::kStart}), 0);
  const auto engine = load_engine(path);
  ASSERT_OK(engine);
  auto session = Session::create(*engine, {.n_ctx = 256});
  ASSERT_OK(session);
  ASSERT_OK((*session)->encode(0, prompt));
  const llama_token start = TinyT5::kStart;
  ASSERT_OK((*session)->decode(Batch::prompt(std::span(&start, 1), 0, 0)));
  EXPECT_TRUE(std::ranges::equal(row_of(context.get(), -1), (*session)->logits(0)));
  EXPECT_GT(llama_perf_context(context.get()).n_p_eval, 0);
}

TEST(LlamaEncoder, EmbedsWithTheEncoderOfT5) {
  const LlamaModel model = load_llama(TinyT5("t5").write("t5.gguf"));
  const LlamaContext context = create_llama(model.get(), embedding_context(2));
  ASSERT_NE(context, nullptr);
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_EQ(decode_all(context.get(), {4, 5, 6}), 0);
    EXPECT_NE(llama_get_embeddings_seq(context.get(), 0), nullptr);
  }
}

TEST(LlamaEncoder, RanksWithAHead) {
  TinyEncoder tiny("bert");
  tiny.linear("cls", TinyEncoder::kWidth, TinyEncoder::kWidth, true);
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  const LlamaModel model = load_llama(tiny.write("rank.gguf"));
  ASSERT_NE(model, nullptr);
  llama_context_params params = embedding_context(2);
  params.pooling_type = 4;
  const LlamaContext context = create_llama(model.get(), params);
  ASSERT_NE(context, nullptr);
  ASSERT_EQ(decode_all(context.get(), {1, 2, 3}), 0);
  const float* score = llama_get_embeddings_seq(context.get(), 0);
  ASSERT_NE(score, nullptr);
  EXPECT_TRUE(std::isfinite(*score));
  EXPECT_EQ(llama_model_n_cls_out(model.get()), 1u);
}

}  // namespace
}  // namespace tessera
