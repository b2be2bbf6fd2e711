// Allocations that fail: each function of llama.h then returns its failure value, and its objects stay usable.
#include "tests/llama/llama_support.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaFailingAllocations : public ::testing::Test {
 protected:
  LlamaFailingAllocations() { llama_log_set(ignore, nullptr); }
  ~LlamaFailingAllocations() override { llama_log_set(nullptr, nullptr); }

  // Calls a function with each stride-th of its allocations failing, then without a failure.
  template <class Call>
  static void survives(const char* name, int64_t stride, Call&& call) {
    EXPECT_GT(count_failing_calls(all_or_few(stride, 5 * stride), call), 0) << name;
    EXPECT_TRUE(call()) << name;
  }

  LlamaModel model_ = load_llama(story_model());
  LlamaContext context_ = create_llama(model_.get(), small_context(512, 2));
  std::vector<llama_token> tokens_ = tokenize(model_.get(), "Once upon a time");

 private:
  static void ignore(int, const char*, void*) {}
};

TEST_F(LlamaFailingAllocations, OfModelsAndContexts) {
  const std::string path = story_model();
  for (const bool vocab_only : {true, false})
    survives("model", vocab_only ? 11 : 41, [&] {
      llama_model_params params = llama_model_default_params();
      params.vocab_only = vocab_only;
      llama_model* model = llama_model_load_from_file(path.c_str(), params);
      llama_model_free(model);
      return model != nullptr;
    });
  survives("context", 1, [&] {
    llama_context* context = llama_init_from_model(model_.get(), small_context());
    llama_free(context);
    return context != nullptr;
  });
}

TEST_F(LlamaFailingAllocations, OfBatches) {
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  const auto want = row_of(context_.get(), -1);
  const llama_memory_t memory = llama_get_memory(context_.get());
  survives("decode", 1, [&] {
    {
      const WorkingAllocations working;
      llama_memory_clear(memory, true);
    }
    const bool is_done =
        llama_decode(context_.get(), llama_batch_get_one(tokens_.data(), static_cast<int32_t>(tokens_.size()))) == 0;
    const WorkingAllocations working;
    EXPECT_TRUE(!is_done || row_of(context_.get(), -1) == want);
    return is_done;
  });
  // Parts, and copies for other sequences.
  llama_memory_clear(memory, true);
  LlamaTokens shared;
  for (llama_pos i = 0; i < 80; ++i) shared.add(5 + i, i, {1, 0}, true);
  const llama_batch parts = shared.batch();
  survives("parts", 3, [&] {
    const bool is_done = llama_decode(context_.get(), parts) == 0;
    const WorkingAllocations working;
    EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), is_done ? 79 : -1);
    llama_memory_clear(memory, true);
    return is_done;
  });
  survives("embeddings", 7, [&] {
    llama_set_embeddings(context_.get(), true);
    const bool is_done = llama_decode(context_.get(), llama_batch_get_one(tokens_.data(), 1)) == 0 &&
                         llama_get_embeddings(context_.get()) != nullptr;
    const WorkingAllocations working;
    llama_memory_clear(memory, true);
    llama_set_embeddings(context_.get(), false);
    return is_done;
  });
}

TEST_F(LlamaFailingAllocations, OfPooledEmbeddings) {
  llama_context_params params = small_context(512, 2);
  params.embeddings = true;
  params.pooling_type = 1;
  const LlamaContext context = create_llama(model_.get(), params);
  const llama_memory_t memory = llama_get_memory(context.get());
  survives("pooling", 1, [&] {
    const bool is_done =
        llama_decode(context.get(), llama_batch_get_one(tokens_.data(), static_cast<int32_t>(tokens_.size()))) == 0;
    const WorkingAllocations working;
    EXPECT_EQ(llama_get_embeddings_seq(context.get(), 0) != nullptr, is_done);
    EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), is_done ? static_cast<llama_pos>(tokens_.size()) - 1 : -1);
    llama_memory_clear(memory, true);
    return is_done;
  });
}

TEST_F(LlamaFailingAllocations, OfTokensAndTexts) {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  survives("tokens", 1, [&] {
    llama_token tokens[32];
    char text[64];
    const int32_t n = llama_tokenize(vocab, "Once upon a time", 16, tokens, 32, true, false);
    return n > 0 && llama_detokenize(vocab, tokens, n, text, sizeof text, false, false) > 0;
  });
  survives("template", 29, [] {
    const llama_chat_message message = {"user", "Hi"};
    char text[256];
    return llama_chat_apply_template("chatml", &message, 1, true, text, sizeof text) > 0;
  });
}

TEST_F(LlamaFailingAllocations, OfSamplers) {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  survives("chain", 3, [&] {
    llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    const char* breakers[] = {"\n"};
    llama_sampler* const added[] = {llama_sampler_init_grammar(vocab, "root ::= \" \"? [a-z]+", "root"),
                                    llama_sampler_init_penalties(512, 64, 1.1f, 0, 0),
                                    llama_sampler_init_dry(vocab, 0.8f, 1.75f, 2, 64, breakers, 1),
                                    llama_sampler_init_top_k(40), llama_sampler_init_dist(3)};
    bool has_all = chain != nullptr;
    for (llama_sampler* one : added) {
      const int32_t n = llama_sampler_chain_n(chain);
      llama_sampler_chain_add(chain, one);
      if (llama_sampler_chain_n(chain) == n + 1) continue;
      has_all = false;
      llama_sampler_free(one);  // it stays the caller's
    }
    llama_sampler* copy = llama_sampler_clone(chain);
    const bool is_done = has_all && copy != nullptr && llama_sampler_sample(copy, context_.get(), -1) >= 0;
    llama_sampler_free(copy);
    llama_sampler_free(chain);
    return is_done;
  });
}

TEST_F(LlamaFailingAllocations, OfStates) {
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  const auto last = static_cast<llama_pos>(tokens_.size()) - 1;
  const llama_memory_t memory = llama_get_memory(context_.get());
  const std::string path = temporary_path("failing.state");
  std::vector<uint8_t> state(llama_state_seq_get_size(context_.get(), 0));
  survives("in memory", 5, [&] {
    const bool is_done = llama_state_seq_get_data(context_.get(), state.data(), state.size(), 0) == state.size() &&
                         llama_state_seq_set_data(context_.get(), state.data(), state.size(), 0) == state.size();
    const WorkingAllocations working;
    EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), last);
    return is_done;
  });
  survives("in files", 17, [&] {
    size_t n = 0;
    llama_token tokens[16];
    return llama_state_save_file(context_.get(), path.c_str(), tokens_.data(), tokens_.size()) &&
           llama_state_load_file(context_.get(), path.c_str(), tokens, 16, &n);
  });
}

TEST_F(LlamaFailingAllocations, OfAdapters) {
  const std::string path = write_lora(story_model(), "failing.gguf", 2, 4.0f, 1);
  std::vector<float> directions(size_t{4} * 64, 0.5f);
  survives("adapter", 71, [&] {
    llama_adapter_lora* adapter = llama_adapter_lora_init(model_.get(), path.c_str());
    float scale = 1;
    const bool is_done = adapter != nullptr && llama_set_adapters_lora(context_.get(), &adapter, 1, &scale) == 0 &&
                         llama_set_adapter_cvec(context_.get(), directions.data(), directions.size(), 64, 1, 3) == 0;
    const WorkingAllocations working;
    EXPECT_EQ(llama_set_adapters_lora(context_.get(), nullptr, 0, nullptr), 0);
    EXPECT_EQ(llama_set_adapter_cvec(context_.get(), nullptr, 0, 0, 0, 0), 0);
    llama_adapter_lora_free(adapter);
    return is_done;
  });
}

}  // namespace
}  // namespace tessera
