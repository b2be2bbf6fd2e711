// Contexts of llama.h: sizes, batches and their results.
#include <nlohmann/json.hpp>

#include "tessera/engine/session.h"
#include "tests/llama/llama_support.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaContextTest : public ::testing::Test {
 protected:
  // The rows that a session of the engine computes for a text.
  std::vector<std::vector<float>> expected_rows(const std::vector<llama_token>& tokens, bool embeddings = false) {
    const auto engine = load_engine(story_model());
    EXPECT_OK(engine);
    auto session = Session::create(*engine, {.n_ctx = 256, .n_outputs = 256, .embeddings = embeddings});
    EXPECT_OK(session);
    Batch batch;
    for (size_t i = 0; i < tokens.size(); ++i)
      batch.add({.token = tokens[i], .position = static_cast<int32_t>(i), .sequence = 0, .wants_logits = true});
    EXPECT_OK((*session)->decode(batch));
    std::vector<std::vector<float>> rows;
    for (int64_t i = 0; i < (*session)->n_outputs(); ++i) {
      const auto row = (*session)->logits(i);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  }

  LlamaModel model_ = load_llama(story_model());
  std::vector<llama_token> tokens_ = tokenize(model_.get(), "Once upon a time, there was a girl");
};

TEST_F(LlamaContextTest, RoundsItsSizes) {
  struct Case {
    uint32_t n_ctx, n_seq_max;
    bool unified;
    uint32_t total, of_sequence;
  };
  const Case cases[] = {{1, 1, false, 256, 256},   {256, 1, false, 256, 256},  {257, 1, false, 512, 512},
                        {512, 2, false, 512, 256}, {600, 2, false, 1024, 512}, {600, 2, true, 768, 768},
                        {0, 1, false, 2048, 2048}, {512, 3, false, 768, 256},  {256, 0, false, 256, 256},
                        {256, 256, true, 256, 256}};
  for (const Case& one : cases) {
    llama_context_params params = small_context(one.n_ctx, one.n_seq_max);
    params.kv_unified = one.unified;
    const LlamaContext context = create_llama(model_.get(), params);
    EXPECT_EQ(llama_n_ctx(context.get()), one.total) << one.n_ctx << " " << one.n_seq_max;
    EXPECT_EQ(llama_n_ctx_seq(context.get()), one.of_sequence) << one.n_ctx << " " << one.n_seq_max;
    EXPECT_EQ(llama_n_seq_max(context.get()), std::max(one.n_seq_max, 1u));
  }
  llama_context_params params = small_context(512);
  params.n_batch = 100;
  params.n_ubatch = 40;
  const LlamaContext context = create_llama(model_.get(), params);
  EXPECT_EQ(llama_n_batch(context.get()), 100u);
  EXPECT_EQ(llama_n_ubatch(context.get()), 40u);
  params.n_ctx = 300;
  params.n_batch = 2048;
  params.n_ubatch = 0;
  const LlamaContext other(llama_new_context_with_model(model_.get(), params), llama_free);
  EXPECT_EQ(llama_n_ctx(other.get()), 512u);
  EXPECT_EQ(llama_n_batch(other.get()), 300u);  // what was asked for, not what it was rounded to
  EXPECT_EQ(llama_n_ubatch(other.get()), 300u);
  EXPECT_EQ(llama_n_rs_seq(other.get()), 0u);
  EXPECT_EQ(llama_pooling_type(other.get()), 0);
  EXPECT_EQ(llama_get_model(other.get()), model_.get());
  EXPECT_EQ(llama_n_threads(other.get()), 1);
  EXPECT_EQ(llama_n_threads_batch(other.get()), 1);
}

TEST_F(LlamaContextTest, RefusesParametersThatWouldChangeResults) {
  LogLines log;
  const auto refused = [&](auto&& change, const std::string& text) {
    llama_context_params params = small_context();
    change(params);
    EXPECT_EQ(create_llama(model_.get(), params), nullptr) << text;
    const std::string line = log.take();
    EXPECT_NE(line.find("llama_init_from_model: " + text), std::string::npos) << line;
  };
  refused([](auto& params) { params.cb_eval = not_a_handle(); }, "cb_eval: ");
  refused([](auto& params) { params.n_samplers = 1; }, "samplers: ");
  refused([](auto& params) { params.ctx_type = 1; }, "ctx_type: 1");
  refused([](auto& params) { params.n_seq_max = 257; }, "n_seq_max: 257, want 256 or fewer");
  refused([](auto& params) { params.pooling_type = 5; }, "pooling_type: 5, want -1 to 4");
  refused([](auto& params) { params.pooling_type = -2; }, "pooling_type: -2");
  refused([](auto& params) { params.pooling_type = 4; }, "pooling_type: 4: the model has no rank head");
  refused([](auto& params) { params.attention_type = 1; }, "attention_type: 1: the model was trained");
  refused([](auto& params) { params.attention_type = 2; }, "attention_type: 2, want -1 to 1");
  refused([](auto& params) { params.n_ctx = 1u << 25; }, "n_ctx: ");
  refused([](auto& params) { params.type_k = 12; }, "type_k: type 12 cannot hold a cache");
  refused([](auto& params) { params.type_v = -1; }, "type_v: type -1");
  refused([](auto& params) { params.rope_scaling_type = 4; }, "rope_scaling_type: 4, want -1 to 3");
}

TEST_F(LlamaContextTest, TellsTheGoldenStory) {
  TESSERA_SHARED_OR_SKIP(path, "models/stories260K.gguf");
  const auto golden = nlohmann::json::parse(read_all(data_path("greedy.json")));
  const LlamaModel model = load_llama(path);
  const LlamaContext context = create_llama(model.get());
  const LlamaSampler chain = chain_of({llama_sampler_init_greedy()});
  for (const auto& run : golden["runs"]) {
    llama_memory_clear(llama_get_memory(context.get()), true);
    const auto want = run["result"]["ids"].get<std::vector<llama_token>>();
    ASSERT_EQ(decode_all(context.get(), run["result"]["prompt_ids"].get<std::vector<llama_token>>()), 0);
    std::vector<llama_token> found;
    while (found.size() < want.size()) {
      found.push_back(llama_sampler_sample(chain.get(), context.get(), -1));
      ASSERT_EQ(decode_all(context.get(), {found.back()}), 0);
    }
    EXPECT_EQ(found, want);
  }
}

TEST_F(LlamaContextTest, ReturnsTheRowsThatWereWanted) {
  const auto want = expected_rows(tokens_);
  const LlamaContext context = create_llama(model_.get());
  EXPECT_EQ(decode_all(context.get(), tokens_), 0);  // without flags: the last token
  EXPECT_EQ(row_of(context.get(), -1), want.back());
  EXPECT_EQ(row_of(context.get(), static_cast<int32_t>(tokens_.size()) - 1), want.back());
  EXPECT_TRUE(std::ranges::equal(want.back(), std::span(llama_get_logits(context.get()), want.back().size())));
  LogLines log;
  EXPECT_EQ(llama_get_logits_ith(context.get(), 0), nullptr);
  EXPECT_NE(log.take().find("token 0 has no output, there are 1 outputs"), std::string::npos);
  EXPECT_EQ(llama_get_logits_ith(context.get(), -2), nullptr);
  EXPECT_EQ(llama_get_logits_ith(context.get(), static_cast<int32_t>(tokens_.size())), nullptr);
  EXPECT_NE(log.take().find("the last batch had"), std::string::npos);

  llama_memory_clear(llama_get_memory(context.get()), true);
  LlamaTokens batch;
  for (size_t i = 0; i < tokens_.size(); ++i) batch.add(tokens_[i], static_cast<int32_t>(i), {0}, i == 2 || i == 5);
  EXPECT_EQ(llama_decode(context.get(), batch.batch()), 0);
  EXPECT_EQ(row_of(context.get(), 2), want[2]);
  EXPECT_EQ(row_of(context.get(), 5), want[5]);
  EXPECT_EQ(row_of(context.get(), -1), want[5]);
  EXPECT_EQ(row_of(context.get(), -2), want[2]);
  EXPECT_EQ(llama_get_logits_ith(context.get(), 3), nullptr);
  const float* rows = llama_get_logits(context.get());
  EXPECT_TRUE(std::ranges::equal(want[2], std::span(rows, want[2].size())));
  EXPECT_TRUE(std::ranges::equal(want[5], std::span(rows + want[2].size(), want[2].size())));
}

// More rows than the session has room for are computed in parts.
TEST_F(LlamaContextTest, ReturnsRowsOfAllTokens) {
  std::vector<llama_token> tokens = tokens_;
  while (tokens.size() < 120) tokens.insert(tokens.end(), tokens_.begin() + 1, tokens_.end());
  ASSERT_GT(tokens.size(), 100u);
  ASSERT_LT(tokens.size(), 256u);
  const auto want = expected_rows(tokens);
  const LlamaContext context = create_llama(model_.get());
  LlamaTokens batch;
  for (size_t i = 0; i < tokens.size(); ++i) batch.add(tokens[i], static_cast<int32_t>(i), {0}, true);
  ASSERT_EQ(llama_decode(context.get(), batch.batch()), 0);
  for (size_t i = 0; i < tokens.size(); ++i) ASSERT_EQ(row_of(context.get(), static_cast<int32_t>(i)), want[i]) << i;
}

TEST_F(LlamaContextTest, ContinuesSequencesWithoutPositions) {
  const auto want = expected_rows(tokens_);
  const LlamaContext context = create_llama(model_.get());
  EXPECT_EQ(decode_all(context.get(), {tokens_.begin(), tokens_.begin() + 4}), 0);
  EXPECT_EQ(row_of(context.get(), -1), want[3]);
  EXPECT_EQ(decode_all(context.get(), {tokens_.begin() + 4, tokens_.end()}), 0);
  EXPECT_EQ(row_of(context.get(), -1), want.back());
  EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(context.get()), 0), static_cast<int32_t>(tokens_.size()) - 1);
}

TEST_F(LlamaContextTest, SharesTokensAmongSequences) {
  const auto want = expected_rows(tokens_);
  const LlamaContext context = create_llama(model_.get(), small_context(1024, 3));
  LlamaTokens prompt;
  for (size_t i = 0; i < 5; ++i) prompt.add(tokens_[i], static_cast<int32_t>(i), {0, 2}, false);
  ASSERT_EQ(llama_decode(context.get(), prompt.batch()), 0);
  const llama_memory_t memory = llama_get_memory(context.get());
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), 4);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 1), -1);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 2), 4);
  LlamaTokens rest;  // shared and single tokens in one batch
  rest.add(tokens_[5], 5, {0, 2}, false);
  rest.add(tokens_[6], 6, {2}, true);
  rest.add(tokens_[6], 6, {0}, true);
  ASSERT_EQ(llama_decode(context.get(), rest.batch()), 0);
  EXPECT_EQ(row_of(context.get(), 1), want[6]);
  EXPECT_EQ(row_of(context.get(), 2), want[6]);
}

TEST_F(LlamaContextTest, SharesTokensOfRecurrentModels) {
  const LlamaModel model = load_llama(arch_model("mamba-dense"));
  const GoldenLogits golden = arch_logits("mamba-dense");
  const auto n_vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  const LlamaContext context = create_llama(model.get(), small_context(512, 2));
  LlamaTokens batch;
  for (size_t i = 0; i < golden.tokens.size(); ++i)
    batch.add(golden.tokens[i], static_cast<int32_t>(i), {1, 0}, i + 1 == golden.tokens.size());
  ASSERT_EQ(llama_decode(context.get(), batch.batch()), 0);
  const auto row = row_of(context.get(), -1);
  ASSERT_EQ(row.size(), n_vocab);
  for (size_t i = 0; i < n_vocab; ++i)
    EXPECT_NEAR(row[i], golden.logits[golden.logits.size() - n_vocab + i], 0.05) << i;
  ASSERT_EQ(decode_all(context.get(), {golden.tokens[0]}), 0);
  const auto next = row_of(context.get(), -1);
  LlamaTokens other;
  other.add(golden.tokens[0], static_cast<int32_t>(golden.tokens.size()), {1}, true);
  ASSERT_EQ(llama_decode(context.get(), other.batch()), 0);
  EXPECT_EQ(row_of(context.get(), -1), next);
  const llama_memory_t memory = llama_get_memory(context.get());
  LogLines log;
  EXPECT_FALSE(llama_memory_seq_rm(memory, 0, 2, 4));  // a part of a state
  EXPECT_EQ(log.last_level(), 1);
  EXPECT_TRUE(llama_memory_seq_rm(memory, 0, 0, -1));
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), -1);
}

TEST_F(LlamaContextTest, RefusesBadBatches) {
  LogLines log;
  const LlamaContext context = create_llama(model_.get(), small_context(512, 2));
  const auto refused = [&](const llama_batch& batch, const std::string& text) {
    EXPECT_EQ(llama_decode(context.get(), batch), -1) << text;
    const std::string line = log.take();
    EXPECT_NE(line.find("llama_decode: " + text), std::string::npos) << line;
    EXPECT_EQ(llama_get_logits(context.get()), nullptr);
    EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(context.get()), 0), -1);
  };
  llama_token token = 5;
  refused(llama_batch_get_one(&token, 0), "n_tokens: 0");
  refused(llama_batch_get_one(nullptr, 1), "token: is NULL");
  llama_batch vectors = llama_batch_get_one(nullptr, 1);
  float values[64] = {};
  vectors.embd = values;
  refused(vectors, "embd: vectors in place of tokens");
  std::vector<llama_token> many(513, 5);
  refused(llama_batch_get_one(many.data(), 513), "n_tokens: 513, n_batch is 512");
  const auto one = [&](llama_token id, llama_pos position, std::vector<llama_seq_id> sequences) {
    LlamaTokens tokens;
    tokens.add(7, 0, {0}, false);
    tokens.add(id, position, std::move(sequences), true);
    return tokens;
  };
  refused(one(512, 1, {0}).batch(), "token 512");
  refused(one(-1, 1, {0}).batch(), "token -1");
  refused(one(5, -1, {0}).batch(), "token 1: position -1");
  refused(one(5, 1, {2}).batch(), "sequence 2, want 0 to 1");
  refused(one(5, 1, {-1}).batch(), "sequence -1");
  refused(one(5, 1, {}).batch(), "token 1: 0 sequences");
  refused(one(5, 1, {0, 1, 0}).batch(), "token 1: 3 sequences, want 1 to 2");
  refused(one(5, 0, {0}).batch(), "token 1: position 0 of sequence 0, which goes on at 1");
  refused(one(5, 2, {0}).batch(), "token 1: position 2 of sequence 0, which goes on at 1");
  refused(one(5, 2, {1, 0}).batch(), "token 1: position 2 of sequence 0, which goes on at 1");
  LlamaTokens without_ids = one(5, 1, {0});
  llama_batch batch = without_ids.batch();
  batch.seq_id[1] = nullptr;
  refused(batch, "token 1: 1 sequences");
}

TEST_F(LlamaContextTest, ReportsThatThereIsNoRoom) {
  LogLines log;
  const LlamaContext context = create_llama(model_.get(), small_context(512, 2));
  const llama_memory_t memory = llama_get_memory(context.get());
  EXPECT_EQ(decode_all(context.get(), std::vector<llama_token>(250, 300)), 0);
  EXPECT_EQ(decode_all(context.get(), std::vector<llama_token>(7, 300)), 1);
  EXPECT_NE(log.take().find("no room for position 256 of sequence 0: the context has 256"), std::string::npos);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), 249);
  EXPECT_EQ(decode_all(context.get(), std::vector<llama_token>(6, 300)), 0);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), 255);
  EXPECT_EQ(decode_all(context.get(), {300}), 1);
  EXPECT_EQ(llama_get_logits(context.get()), nullptr);
}

// Parts that were computed before the one that has no room are taken back.
TEST_F(LlamaContextTest, TakesBackPartsOfABatchWithoutRoom) {
  const LogLines log;
  llama_context_params params = small_context(256, 2);
  params.kv_unified = true;
  const LlamaContext context = create_llama(model_.get(), params);
  const llama_memory_t memory = llama_get_memory(context.get());
  EXPECT_EQ(decode_all(context.get(), std::vector<llama_token>(200, 300)), 0);
  LlamaTokens batch;
  for (int32_t i = 0; i < 200; ++i) batch.add(300, i, {1}, true);
  EXPECT_EQ(llama_decode(context.get(), batch.batch()), 1);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 1), -1);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), 199);
  EXPECT_EQ(decode_all(context.get(), {300}), 0);
}

TEST_F(LlamaContextTest, StopsOnRequest) {
  LogLines log;
  int n_calls = 0;
  llama_context_params params = small_context();
  params.n_ubatch = 4;
  params.abort_callback_data = &n_calls;
  params.abort_callback = [](void* user) { return ++*static_cast<int*>(user) == 2; };
  const LlamaContext context = create_llama(model_.get(), params);
  EXPECT_EQ(decode_all(context.get(), tokens_), 2);
  EXPECT_EQ(n_calls, 2);
  EXPECT_EQ(log.last_level(), 3);
  EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(context.get()), 0), -1);
  n_calls = 1;
  EXPECT_EQ(decode_all(context.get(), tokens_), 2);
  n_calls = 2;
  EXPECT_EQ(decode_all(context.get(), tokens_), 0);
  llama_set_abort_callback(
      context.get(), [](void*) { return true; }, nullptr);
  EXPECT_EQ(decode_all(context.get(), {5}), 2);
  llama_set_abort_callback(context.get(), nullptr, nullptr);
  EXPECT_EQ(decode_all(context.get(), {5}), 0);
}

TEST_F(LlamaContextTest, ComputesEmbeddings) {
  const auto want = expected_rows(tokens_, true);
  llama_context_params params = small_context(512, 2);
  params.embeddings = true;
  const LlamaContext context = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(context.get(), tokens_), 0);
  for (size_t i = 0; i < want.size(); ++i) {
    const float* row = llama_get_embeddings_ith(context.get(), static_cast<int32_t>(i));
    ASSERT_NE(row, nullptr);
    EXPECT_TRUE(std::ranges::equal(want[i], std::span(row, 64)));
  }
  EXPECT_EQ(llama_get_embeddings(context.get()), llama_get_embeddings_ith(context.get(), 0));
  EXPECT_EQ(llama_get_embeddings_seq(context.get(), 0), nullptr);
  LogLines log;
  EXPECT_EQ(llama_get_logits(context.get()), nullptr);
  EXPECT_NE(log.take().find("the context computes embeddings"), std::string::npos);
  EXPECT_EQ(llama_get_logits_ith(context.get(), 0), nullptr);
}

TEST_F(LlamaContextTest, PoolsEmbeddings) {
  const auto rows = expected_rows(tokens_, true);
  for (const int32_t pooling : {1, 2, 3}) {
    llama_context_params params = small_context(512, 2);
    params.embeddings = true;
    params.pooling_type = pooling;
    const LlamaContext context = create_llama(model_.get(), params);
    EXPECT_EQ(llama_pooling_type(context.get()), pooling);
    LlamaTokens batch;
    for (size_t i = 0; i < tokens_.size(); ++i) batch.add(tokens_[i], static_cast<int32_t>(i), {1}, true);
    batch.add(tokens_[0], 0, {0}, true);
    ASSERT_EQ(llama_decode(context.get(), batch.batch()), 0);
    const float* pooled = llama_get_embeddings_seq(context.get(), 1);
    ASSERT_NE(pooled, nullptr);
    for (size_t j = 0; j < 64; ++j) {
      double mean = 0;
      for (const auto& row : rows) mean += static_cast<double>(row[j]) / static_cast<double>(rows.size());
      const double want = pooling == 1 ? mean : static_cast<double>(pooling == 2 ? rows.front()[j] : rows.back()[j]);
      EXPECT_NEAR(pooled[j], want, 1e-5);
    }
    EXPECT_NE(llama_get_embeddings_seq(context.get(), 0), nullptr);
    EXPECT_EQ(llama_get_embeddings_seq(context.get(), 2), nullptr);
  }
}

TEST_F(LlamaContextTest, ChangesBetweenLogitsAndEmbeddings) {
  const auto logits = expected_rows(tokens_), embeddings = expected_rows(tokens_, true);
  const LlamaContext context = create_llama(model_.get());
  ASSERT_EQ(decode_all(context.get(), {tokens_.begin(), tokens_.end() - 2}), 0);
  llama_set_embeddings(context.get(), true);
  EXPECT_EQ(llama_get_embeddings(context.get()), nullptr);
  ASSERT_EQ(decode_all(context.get(), {*(tokens_.end() - 2)}), 0);
  EXPECT_TRUE(std::ranges::equal(*(embeddings.end() - 2), std::span(llama_get_embeddings(context.get()), 64)));
  llama_set_embeddings(context.get(), false);
  ASSERT_EQ(decode_all(context.get(), {tokens_.back()}), 0);
  EXPECT_EQ(row_of(context.get(), -1), logits.back());
}

TEST_F(LlamaContextTest, ChangesItsThreads) {
  const auto want = expected_rows(tokens_);
  const LlamaContext context = create_llama(model_.get());
  llama_set_n_threads(context.get(), 2, 3);
  EXPECT_EQ(llama_n_threads(context.get()), 2);
  EXPECT_EQ(llama_n_threads_batch(context.get()), 3);
  ASSERT_EQ(decode_all(context.get(), {tokens_.begin(), tokens_.end() - 1}), 0);
  llama_set_n_threads(context.get(), 1, 1);
  ASSERT_EQ(decode_all(context.get(), {tokens_.back()}), 0);
  EXPECT_EQ(row_of(context.get(), -1), want.back());
  llama_synchronize(context.get());
  llama_set_warmup(context.get(), true);
}

TEST_F(LlamaContextTest, KeepsTheAttentionOfTheModel) {
  LogLines log;
  const LlamaContext context = create_llama(model_.get());
  llama_set_causal_attn(context.get(), true);
  EXPECT_EQ(log.take(), "");
  llama_set_causal_attn(context.get(), false);
  EXPECT_NE(log.take().find("llama_set_causal_attn: ignored"), std::string::npos);
}

TEST_F(LlamaContextTest, HasRopeSettingsOfItsOwn) {
  const auto plain = expected_rows(tokens_);
  llama_context_params params = small_context();
  params.rope_freq_base = 10000;  // the model's
  const LlamaContext same = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(same.get(), tokens_), 0);
  EXPECT_EQ(row_of(same.get(), -1), plain.back());
  params.rope_freq_base = 0;
  params.rope_freq_scale = 0.5f;
  params.rope_scaling_type = 1;
  const LlamaContext stretched = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(stretched.get(), tokens_), 0);
  const auto engine = load_engine(story_model(), {.rope = {.scaling = nn::RopeScaling::linear, .factor = 2.0f}});
  ASSERT_OK(engine);
  auto session = Session::create(*engine, {.n_ctx = 256});
  ASSERT_OK(session);
  ASSERT_OK((*session)->decode(Batch::prompt(tokens_, 0, 0)));
  EXPECT_TRUE(std::ranges::equal(row_of(stretched.get(), -1), (*session)->logits(0)));
  EXPECT_NE(row_of(stretched.get(), -1), plain.back());
}

TEST_F(LlamaContextTest, HasCachesOfOtherTypes) {
  const auto want = expected_rows(tokens_);
  llama_context_params params = small_context();
  params.type_k = params.type_v = 0;
  const LlamaContext context = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(context.get(), tokens_), 0);
  const auto row = row_of(context.get(), -1);
  EXPECT_NE(row, want.back());
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], want.back()[i], 0.05);
}

TEST_F(LlamaContextTest, CountsTokensAndTime) {
  LogLines log;
  llama_context_params params = small_context();
  const LlamaContext counting = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(counting.get(), tokens_), 0);
  EXPECT_EQ(llama_perf_context(counting.get()).n_p_eval, static_cast<int32_t>(tokens_.size()));
  EXPECT_EQ(llama_perf_context(counting.get()).t_p_eval_ms, 0);
  params.no_perf = false;
  const LlamaContext context = create_llama(model_.get(), params);
  ASSERT_EQ(decode_all(context.get(), tokens_), 0);
  ASSERT_EQ(decode_all(context.get(), {5}), 0);
  ASSERT_EQ(decode_all(context.get(), {6}), 0);
  llama_perf_context_data times = llama_perf_context(context.get());
  EXPECT_EQ(times.n_p_eval, static_cast<int32_t>(tokens_.size()));
  EXPECT_EQ(times.n_eval, 2);
  EXPECT_GT(times.t_load_ms, 0);
  EXPECT_GT(times.t_p_eval_ms, 0);
  EXPECT_GT(times.t_eval_ms, 0);
  EXPECT_GT(times.t_start_ms, 0);
  llama_perf_context_print(context.get());
  EXPECT_NE(log.take().find("generation"), std::string::npos);
  llama_perf_context_reset(context.get());
  times = llama_perf_context(context.get());
  EXPECT_EQ(times.n_p_eval, 1);  // programs divide by them
  EXPECT_EQ(times.n_eval, 1);
  EXPECT_EQ(times.t_p_eval_ms + times.t_eval_ms, 0);
}

TEST_F(LlamaContextTest, HasNoSamplersWithinGraphs) {
  const LlamaContext context = create_llama(model_.get());
  ASSERT_EQ(decode_all(context.get(), tokens_), 0);
  EXPECT_EQ(llama_get_sampled_token_ith(context.get(), -1), -1);
  EXPECT_EQ(llama_get_sampled_probs_ith(context.get(), -1), nullptr);
  EXPECT_EQ(llama_get_sampled_probs_count_ith(context.get(), -1), 0u);
  EXPECT_EQ(llama_get_sampled_logits_ith(context.get(), -1), nullptr);
  EXPECT_EQ(llama_get_sampled_logits_count_ith(context.get(), -1), 0u);
  EXPECT_EQ(llama_get_sampled_candidates_ith(context.get(), -1), nullptr);
  EXPECT_EQ(llama_get_sampled_candidates_count_ith(context.get(), -1), 0u);
}

TEST(LlamaBatch, AllocatesItsArrays) {
  llama_batch batch = llama_batch_init(3, 0, 2);
  ASSERT_NE(batch.token, nullptr);
  EXPECT_EQ(batch.embd, nullptr);
  EXPECT_EQ(batch.n_tokens, 0);
  for (int32_t i = 0; i < 3; ++i) {
    batch.token[i] = batch.pos[i] = batch.n_seq_id[i] = i;
    batch.seq_id[i][1] = batch.logits[i] = 1;
  }
  EXPECT_EQ(batch.seq_id[3], nullptr);
  llama_batch_free(batch);
  batch = llama_batch_init(1, 0, 1);  // the smallest
  ASSERT_NE(batch.token, nullptr);
  batch.token[0] = batch.seq_id[0][0] = batch.logits[0] = 1;
  EXPECT_EQ(batch.seq_id[1], nullptr);
  llama_batch_free(batch);
  batch = llama_batch_init(2, 8, 1);
  EXPECT_EQ(batch.token, nullptr);
  ASSERT_NE(batch.embd, nullptr);
  batch.embd[15] = 1;
  llama_batch_free(batch);
  const LogLines log;
  for (const auto& [n, embd, sequences] : {std::array{0, 0, 1}, {-1, 0, 1}, {1, -1, 1}, {1, 0, 0}, {1 << 30, 0, 1}}) {
    batch = llama_batch_init(n, embd, sequences);
    EXPECT_EQ(batch.seq_id, nullptr);
    llama_batch_free(batch);
  }
}

}  // namespace
}  // namespace tessera
