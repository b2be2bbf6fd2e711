// llama_decode: after an error the sequences of the batch are as they were, and what they compute next is the same.
#include <numeric>

#include "tests/llama/llama_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

// The callback of a context, which stops at call number `stop_at`; 0: never.
struct Abort {
  int stop_at = 0;
  int n_calls = 0;

  static bool ask(void* user) {
    auto& self = *static_cast<Abort*>(user);
    return ++self.n_calls == self.stop_at;
  }
  llama_context_params params() {
    llama_context_params params = small_context(512, 3);
    params.abort_callback = ask;
    params.abort_callback_data = this;
    return params;
  }
};

std::vector<llama_token> some_tokens(const llama_model* model, int32_t n, int32_t step) {
  const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = (3 + i * step) % n_vocab;
  return tokens;
}

// Tokens at the end of sequences, all with outputs, which are computed in several parts.
LlamaTokens batch_of(const std::vector<llama_token>& tokens, llama_pos begin, std::vector<llama_seq_id> sequences) {
  LlamaTokens batch;
  for (size_t i = 0; i < tokens.size(); ++i) batch.add(tokens[i], begin + static_cast<llama_pos>(i), sequences, true);
  return batch;
}

class LlamaRollback : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int32_t kPrompt = 40, kBatch = 140;

  // Stops a batch of these sequences, of which `filled` have a prompt, at each of its calls.
  void expect_as_before(std::vector<llama_seq_id> filled, std::vector<llama_seq_id> sequences) {
    LogLines log;
    Abort abort;
    const LlamaContext context = create_llama(model_.get(), abort.params());
    ASSERT_NE(context, nullptr) << log.take();
    const llama_memory_t memory = llama_get_memory(context.get());
    const std::vector<llama_token> prompt = some_tokens(model_.get(), kPrompt, 7);
    for (const llama_seq_id sequence : filled)
      ASSERT_EQ(llama_decode(context.get(), batch_of(prompt, 0, {sequence}).batch()), 0) << log.take();
    const llama_pos begin = filled.empty() ? 0 : kPrompt;
    const std::vector<llama_token> tokens = some_tokens(model_.get(), kBatch, 5);
    int n_stops = 0;
    for (int32_t status = 2; status != 0; ++n_stops) {
      abort = {.stop_at = n_stops + 1};
      LlamaTokens batch = batch_of(tokens, begin, sequences);
      status = llama_decode(context.get(), batch.batch());
      if (status == 0) break;
      ASSERT_EQ(status, 2) << log.take();
      EXPECT_EQ(llama_get_logits(context.get()), nullptr);
      for (const llama_seq_id sequence : {0, 1, 2}) {
        const bool is_filled = std::ranges::find(filled, sequence) != filled.end();
        EXPECT_EQ(llama_memory_seq_pos_max(memory, sequence), is_filled ? kPrompt - 1 : -1) << n_stops;
      }
    }
    EXPECT_GE(n_stops, 3);  // before the first part, and after each of several
    std::vector<std::vector<float>> rows;
    for (int32_t i = 0; i < kBatch; ++i) rows.push_back(row_of(context.get(), i));
    Abort never;
    const LlamaContext fresh = create_llama(model_.get(), never.params());
    for (const llama_seq_id sequence : filled)
      ASSERT_EQ(llama_decode(fresh.get(), batch_of(prompt, 0, {sequence}).batch()), 0);
    ASSERT_EQ(llama_decode(fresh.get(), batch_of(tokens, begin, sequences).batch()), 0);
    for (int32_t i = 0; i < kBatch; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)], row_of(fresh.get(), i)) << i;
    // The other sequences go on, too.
    for (const llama_seq_id sequence : sequences) {
      ASSERT_EQ(llama_decode(context.get(), batch_of({5}, begin + kBatch, {sequence}).batch()), 0);
      ASSERT_EQ(llama_decode(fresh.get(), batch_of({5}, begin + kBatch, {sequence}).batch()), 0);
      EXPECT_EQ(row_of(context.get(), 0), row_of(fresh.get(), 0)) << sequence;
    }
  }

  LlamaModel model_ = load_llama(GetParam() == std::string("story") ? story_model() : arch_model(GetParam()));
};

// Without memory of earlier positions: mamba has a state, gemma3 a sliding window, jamba a state and a cache.
INSTANTIATE_TEST_SUITE_P(Model, LlamaRollback,
                         ::testing::Values("story", "mamba-dense", "gemma3-dense", "jamba-dense"));

TEST_P(LlamaRollback, OfOneSequence) { expect_as_before({0}, {0}); }
TEST_P(LlamaRollback, OfANewSequence) { expect_as_before({}, {1}); }
TEST_P(LlamaRollback, OfSharedTokens) { expect_as_before({0, 2}, {2, 0}); }

}  // namespace
}  // namespace tessera
