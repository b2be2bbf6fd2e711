// Shared by the tests of libllama: handles that free themselves, the log, and batches.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/llama/llama_api.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// Collects the log while it lives.
class LogLines {
 public:
  LogLines() { llama_log_set(add, this); }
  ~LogLines() { llama_log_set(nullptr, nullptr); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::string take() { return std::exchange(text_, {}); }
  int last_level() const { return last_level_; }

 private:
  static void add(int level, const char* text, void* user) {
    auto* const self = static_cast<LogLines*>(user);
    self->last_level_ = level;
    self->text_ += text;
  }
  std::string text_;
  int last_level_ = 0;
};

using LlamaModel = std::unique_ptr<llama_model, decltype(&llama_model_free)>;
using LlamaContext = std::unique_ptr<llama_context, decltype(&llama_free)>;
using LlamaSampler = std::unique_ptr<llama_sampler, decltype(&llama_sampler_free)>;
using LlamaAdapter = std::unique_ptr<llama_adapter_lora, decltype(&llama_adapter_lora_free)>;

inline LlamaModel load_llama(const std::string& path, llama_model_params params = llama_model_default_params()) {
  return {llama_model_load_from_file(path.c_str(), params), llama_model_free};
}

inline llama_context_params small_context(uint32_t n_ctx = 256, uint32_t n_seq_max = 1) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = n_ctx;
  params.n_seq_max = n_seq_max;
  params.n_threads = params.n_threads_batch = 1;
  return params;
}

inline LlamaContext create_llama(llama_model* model, llama_context_params params = small_context()) {
  return {llama_init_from_model(model, params), llama_free};
}

inline LlamaSampler own(llama_sampler* sampler) { return {sampler, llama_sampler_free}; }

/// A chain of these samplers, which it owns.
inline LlamaSampler chain_of(std::initializer_list<llama_sampler*> samplers) {
  LlamaSampler chain = own(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  for (llama_sampler* sampler : samplers) llama_sampler_chain_add(chain.get(), sampler);
  return chain;
}

inline std::vector<llama_token> tokenize(const llama_model* model, const std::string& text, bool special = true) {
  std::vector<llama_token> tokens(text.size() + 2);
  const int32_t n = llama_tokenize(llama_model_get_vocab(model), text.data(), static_cast<int32_t>(text.size()),
                                   tokens.data(), static_cast<int32_t>(tokens.size()), special, false);
  EXPECT_GE(n, 0);
  tokens.resize(static_cast<size_t>(std::max(n, 0)));
  return tokens;
}

/// A batch of tokens with arrays of its own.
class LlamaTokens {
 public:
  void add(llama_token token, llama_pos position, std::vector<llama_seq_id> sequences, bool wants_logits) {
    tokens_.push_back(token);
    positions_.push_back(position);
    n_sequences_.push_back(static_cast<int32_t>(sequences.size()));
    sequences_.push_back(std::move(sequences));
    logits_.push_back(wants_logits ? 1 : 0);
  }
  llama_batch batch() {
    pointers_.clear();
    for (auto& one : sequences_) pointers_.push_back(one.data());
    return {static_cast<int32_t>(tokens_.size()),
            tokens_.data(),
            nullptr,
            positions_.data(),
            n_sequences_.data(),
            pointers_.data(),
            logits_.data()};
  }

 private:
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<int32_t> n_sequences_;
  std::vector<std::vector<llama_seq_id>> sequences_;
  std::vector<llama_seq_id*> pointers_;
  std::vector<int8_t> logits_;
};

inline int32_t decode_all(llama_context* context, std::vector<llama_token> tokens) {
  return llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size())));
}

inline std::vector<float> row_of(llama_context* context, int32_t i) {
  const float* row = llama_get_logits_ith(context, i);
  const auto n = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context))));
  return row == nullptr ? std::vector<float>() : std::vector<float>(row, row + n);
}

/// Memory that is no handle.
inline void* not_a_handle() {
  static uint64_t words[64] = {};
  return words;
}

}  // namespace tessera::testing
