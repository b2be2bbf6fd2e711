// Numbers and pointers that no program should pass to llama.h: a failure value, or a result within bounds.
#include <cmath>
#include <limits>

#include "tests/llama/llama_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int32_t kEdges[] = {INT32_MIN, INT32_MIN + 1, -2, -1, 0, 1, 2, 511, 512, 1 << 24, INT32_MAX - 1, INT32_MAX};
constexpr uint32_t kUnsignedEdges[] = {0, 1, 255, 256, 1u << 24, 1u << 31, ~0u};
constexpr float kFloatEdges[] = {std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(),
                                 -1e30f,
                                 -1,
                                 0,
                                 1e-30f,
                                 1e30f};

class LlamaNumbers : public ::testing::Test {
 protected:
  LlamaNumbers() { EXPECT_EQ(decode_all(context_.get(), {1, 5, 9}), 0); }

  // A context still works after calls that it may have refused.
  void expect_working() {
    llama_memory_clear(memory_, true);
    EXPECT_EQ(decode_all(context_.get(), {1, 5, 9}), 0);
    EXPECT_EQ(llama_memory_seq_pos_max(memory_, 0), 2);
    log_.take();
  }

  LogLines log_;
  LlamaModel model_ = load_llama(story_model());
  LlamaContext context_ = create_llama(model_.get(), small_context(512, 2));
  const llama_vocab* vocab_ = llama_model_get_vocab(model_.get());
  llama_memory_t memory_ = llama_get_memory(context_.get());
};

TEST_F(LlamaNumbers, OfPositionsAndSequences) {
  for (const int32_t a : kEdges)
    for (const int32_t b : kEdges) {
      llama_memory_seq_rm(memory_, a, b, b);
      llama_memory_seq_rm(memory_, 0, a, b);
      llama_memory_seq_cp(memory_, a, b, -1, -1);
      llama_memory_seq_cp(memory_, 0, 1, a, b);
      llama_memory_seq_keep(memory_, a);
      llama_memory_seq_add(memory_, a, 0, -1, b);
      llama_memory_seq_add(memory_, 0, a, b, a);
      llama_memory_seq_add(memory_, 0, 0, -1, b);
      llama_memory_seq_div(memory_, a, 0, -1, b);
      llama_memory_seq_div(memory_, 0, a, b, b);
      llama_memory_seq_pos_min(memory_, a);
      llama_memory_seq_pos_max(memory_, a);
      expect_working();
    }
}

// n_discard < 0 of CVE-2026-21869: what a server with a shifted context calls.
TEST_F(LlamaNumbers, OfShiftsThatMoveForwards) {
  llama_memory_seq_rm(memory_, 0, 1, 1 - 1000);
  llama_memory_seq_add(memory_, 0, 1 - 1000, 3, 1000);
  EXPECT_LE(llama_memory_seq_pos_max(memory_, 0), 511);
  llama_memory_seq_add(memory_, 0, 0, -1, INT32_MAX);
  EXPECT_LE(llama_memory_seq_pos_max(memory_, 0), 511);
  expect_working();
}

TEST_F(LlamaNumbers, OfTokens) {
  char text[8];
  const LlamaSampler penalties = own(llama_sampler_init_penalties(512, 64, 1.5f, 1, 1));
  const LlamaSampler grammar = own(llama_sampler_init_grammar(vocab_, "root ::= [a-z]*", "root"));
  for (const llama_token token : kEdges) {
    const bool is_token = token >= 0 && token < 512;
    EXPECT_EQ(llama_vocab_get_text(vocab_, token) != nullptr, is_token) << token;
    EXPECT_EQ(llama_vocab_get_attr(vocab_, token) != 0, is_token) << token;
    EXPECT_EQ(llama_vocab_is_eog(vocab_, token), token == 2);
    EXPECT_EQ(llama_vocab_is_control(vocab_, token), token == 1 || token == 2);
    llama_vocab_get_score(vocab_, token);
    llama_token_to_piece(vocab_, token, text, sizeof text, 0, true);
    llama_detokenize(vocab_, &token, 1, text, sizeof text, true, true);
    llama_sampler_accept(penalties.get(), token);
    llama_sampler_accept(grammar.get(), token);
    llama_token one = token;
    EXPECT_EQ(llama_decode(context_.get(), llama_batch_get_one(&one, 1)), is_token ? 0 : -1) << token;
    EXPECT_EQ(llama_encode(context_.get(), llama_batch_get_one(&one, 1)), is_token ? 0 : -1) << token;
    EXPECT_EQ(llama_get_logits_ith(context_.get(), token) != nullptr, is_token && (token == 0 || token == -1));
    EXPECT_EQ(llama_get_embeddings_ith(context_.get(), token), nullptr);
    EXPECT_EQ(llama_get_embeddings_seq(context_.get(), token), nullptr);
    llama_get_sampled_token_ith(context_.get(), token);
    EXPECT_EQ(llama_sampler_sample(penalties.get(), context_.get(), token), -1);
    EXPECT_EQ(llama_sampler_chain_get(penalties.get(), token), nullptr);
  }
  expect_working();
}

TEST_F(LlamaNumbers, OfBatches) {
  llama_token token = 5;
  std::vector<llama_token> many(512, 5);
  for (const int32_t n : kEdges) {
    const int32_t want = n < 1 || n > 512 ? -1 : n < 200 ? 0 : 1;
    EXPECT_EQ(llama_decode(context_.get(), llama_batch_get_one(many.data(), n)), want) << n;
  }
  for (const int32_t edge : kEdges) {
    LlamaTokens at;
    at.add(5, edge, {1}, true);
    const int32_t status = llama_decode(context_.get(), at.batch());
    EXPECT_EQ(status, edge < 0 ? -1 : edge < 256 ? 0 : 1) << edge;
    llama_memory_seq_rm(memory_, 1, -1, -1);
    if (edge == 0 || edge == 1) continue;
    LlamaTokens of;
    of.add(5, 3, {edge}, true);
    EXPECT_EQ(llama_decode(context_.get(), of.batch()), -1) << edge;
    llama_seq_id ids[] = {0, -1}, *sequences[] = {ids};
    int32_t n = edge;
    llama_batch batch = llama_batch_get_one(&token, 1);
    batch.seq_id = sequences;
    batch.n_seq_id = &n;
    EXPECT_EQ(llama_decode(context_.get(), batch), -1) << edge;
    for (const int32_t other : {0, 1}) {  // and none of the sizes may be absurd together
      if (edge > 4096) continue;
      const llama_batch made = llama_batch_init(other, edge, edge);
      llama_batch_free(made);
    }
  }
  for (const auto& [n, n_embd, n_sequences] : {std::array{INT32_MAX, 0, 1},
                                               {1 << 24, 0, INT32_MAX},
                                               {1 << 24, 0, 17},
                                               {1, 0, INT32_MAX},
                                               {INT32_MIN, 0, 1},
                                               {1, INT32_MIN, 1},
                                               {1, 0, INT32_MIN}}) {
    log_.take();
    const llama_batch batch = llama_batch_init(n, n_embd, n_sequences);
    EXPECT_EQ(batch.seq_id, nullptr) << n << " " << n_sequences;
    llama_batch_free(batch);
    EXPECT_TRUE(log_.take().starts_with("llama_batch_init: "));
  }
  expect_working();
}

TEST_F(LlamaNumbers, OfContexts) {
  const auto expect_result = [&](auto&& change) {
    llama_context_params params = small_context();
    change(params);
    const LlamaContext context = create_llama(model_.get(), params);
    const std::string line = log_.take();
    if (context == nullptr) {
      EXPECT_TRUE(line.starts_with("llama_init_from_model: ")) << line;
      return;
    }
    const int32_t status = decode_all(context.get(), {1, 5});
    EXPECT_TRUE(status == 0 || status == -1) << status;
    log_.take();
  };
  for (const uint32_t n : kUnsignedEdges) {
    if (n < 1u << 24 || n > 1u << 30) expect_result([&](auto& params) { params.n_ctx = n; });
    expect_result([&](auto& params) { params.n_batch = n; });
    expect_result([&](auto& params) { params.n_ubatch = n; });
    expect_result([&](auto& params) { params.n_seq_max = n; });
    expect_result([&](auto& params) { params.n_outputs_max = n; });
    expect_result([&](auto& params) { params.n_rs_seq = n; });
    expect_result([&](auto& params) { params.yarn_orig_ctx = n; });
  }
  for (const int32_t n : kEdges) {
    if (n < 512) expect_result([&](auto& params) { params.n_threads = params.n_threads_batch = n; });
    expect_result([&](auto& params) { params.ctx_type = n; });
    expect_result([&](auto& params) { params.rope_scaling_type = n; });
    expect_result([&](auto& params) { params.pooling_type = n; });
    expect_result([&](auto& params) { params.attention_type = n; });
    expect_result([&](auto& params) { params.flash_attn_type = n; });
    expect_result([&](auto& params) { params.type_k = n; });
    expect_result([&](auto& params) { params.type_v = n; });
  }
  for (const float x : kFloatEdges) {
    expect_result([&](auto& params) { params.rope_freq_base = x; });
    expect_result([&](auto& params) { params.rope_freq_scale = x; });
    expect_result([&](auto& params) { params.yarn_ext_factor = x; });
    expect_result([&](auto& params) { params.yarn_attn_factor = x; });
    expect_result([&](auto& params) { params.yarn_beta_fast = x; });
    expect_result([&](auto& params) { params.yarn_beta_slow = x; });
    expect_result([&](auto& params) { params.defrag_thold = x; });
  }
  for (const int32_t n : kEdges)
    if (n < 512) llama_set_n_threads(context_.get(), n, n);
  expect_working();
}

TEST_F(LlamaNumbers, OfModels) {
  const auto expect_result = [&](auto&& change) {
    llama_model_params params = llama_model_default_params();
    change(params);
    const bool is_loaded = load_llama(story_model(), params) != nullptr;
    const std::string line = log_.take();
    EXPECT_TRUE(is_loaded || line.starts_with("llama_model_load_from_file: ")) << line;
  };
  for (const int32_t n : {INT32_MIN, -2, 0, 1, INT32_MAX}) {
    expect_result([&](auto& params) { params.n_gpu_layers = n; });
    expect_result([&](auto& params) { params.split_mode = n; });
    expect_result([&](auto& params) { params.load_mode = n; });
    expect_result([&](auto& params) { params.lazy_mode = n; });
    expect_result([&](auto& params) { params.main_gpu = n; });
  }
  for (const float x : kFloatEdges) {
    std::vector<float> shares(llama_max_devices(), x);
    expect_result([&](auto& params) { params.tensor_split = shares.data(); });
  }
  const std::string story = story_model(), out = temporary_path("numbers.gguf");
  for (const int32_t n : kEdges) {
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.dry_run = true;
    params.ftype = n;
    llama_model_quantize(story.c_str(), out.c_str(), &params);
    params.ftype = 7;
    params.output_tensor_type = n;
    llama_model_quantize(story.c_str(), out.c_str(), &params);
    params.output_tensor_type = 43;
    params.token_embedding_type = n;
    llama_model_quantize(story.c_str(), out.c_str(), &params);
    llama_ftype_name(n);
    llama_flash_attn_type_name(n);
    llama_load_mode_name(n);
    llama_model_meta_key_str(n);
    llama_numa_init(n);
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(LlamaNumbers, OfAdapters) {
  std::vector<float> directions(size_t{4} * 64, 1.0f);
  for (const int32_t a : kEdges)
    for (const int32_t b : kEdges) {
      const bool is_valid = a >= 1 && a < 5 && b >= a;  // there are 5 layers
      EXPECT_EQ(llama_set_adapter_cvec(context_.get(), directions.data(), directions.size(), 64, a, b),
                is_valid ? 0 : -1)
          << a << " " << b;
      EXPECT_EQ(llama_set_adapter_cvec(context_.get(), directions.data(), 64, a, 1, 2), -1);  // a wrong width
    }
  std::ranges::fill(directions, std::numeric_limits<float>::quiet_NaN());
  llama_set_adapter_cvec(context_.get(), directions.data(), directions.size(), 64, 1, 3);
  EXPECT_EQ(llama_set_adapter_cvec(context_.get(), directions.data(), SIZE_MAX, 64, 1, 3), -1);
  EXPECT_EQ(llama_set_adapters_lora(context_.get(), nullptr, SIZE_MAX, nullptr), -1);
  EXPECT_EQ(llama_set_adapter_cvec(context_.get(), nullptr, 0, 0, 0, 0), 0);
  expect_working();
}

// Rooms of any size: nothing is written behind the buffer, whose size is stated too large only where that is harmless.
TEST_F(LlamaNumbers, OfBuffers) {
  const auto* model = model_.get();
  char text[80];
  llama_token tokens[16];
  for (size_t room = 0; room <= 8; ++room) {
    std::fill_n(text, sizeof text, '#');
    EXPECT_EQ(llama_model_meta_val_str(model, "general.architecture", text, room), 5);
    EXPECT_EQ(text[room], '#');
    EXPECT_EQ(llama_model_desc(model, text, room), 16);
    EXPECT_EQ(text[room], '#');
    llama_split_path(text, room, "m", 0, 1);
    EXPECT_EQ(text[room], '#');
    llama_split_prefix(text, room, "prefix-00001-of-00002.gguf", 0, 2);
    EXPECT_EQ(text[room], '#');
    std::fill_n(tokens, 16, -7);
    llama_tokenize(vocab_, "Once upon a time", 16, tokens, static_cast<int32_t>(room), true, false);
    EXPECT_EQ(tokens[room], -7);
  }
  EXPECT_EQ(llama_model_meta_val_str(model, "general.architecture", text, SIZE_MAX), 5);
  EXPECT_EQ(llama_model_desc(model, text, SIZE_MAX), 16);
  EXPECT_EQ(llama_split_path(text, SIZE_MAX, "m", 0, 1), 21);
  EXPECT_EQ(llama_split_prefix(text, SIZE_MAX, "p-00001-of-00001.gguf", 0, 1), 1);
  for (const int32_t n : kEdges) {
    if (n < 1) {
      EXPECT_LT(llama_tokenize(vocab_, "Once", 4, tokens, n, true, false), 0) << n;
      EXPECT_LE(llama_token_to_piece(vocab_, 300, text, n, 0, false), 0) << n;
      EXPECT_LE(llama_detokenize(vocab_, tokens, 1, text, n, false, false), 0) << n;
    }
    if (n < 0) {
      EXPECT_EQ(llama_tokenize(vocab_, "Once", n, tokens, 16, true, false), INT32_MIN) << n;
      EXPECT_EQ(llama_detokenize(vocab_, tokens, n, text, sizeof text, false, false), 0) << n;
    }
    llama_token_to_piece(vocab_, 300, text, sizeof text, n, false);
    llama_model_meta_key_by_index(model, n, text, sizeof text);
    llama_model_meta_val_str_by_index(model, n, text, sizeof text);
    llama_split_path(text, sizeof text, "m", n, n);
    llama_split_prefix(text, sizeof text, "m-00001-of-00002.gguf", n, n);
    llama_model_cls_label(model, static_cast<uint32_t>(n));
    EXPECT_EQ(llama_state_seq_get_size(context_.get(), n) > 0, n == 0 || n == 1) << n;
  }
  std::vector<uint8_t> state(llama_state_get_size(context_.get()));
  EXPECT_EQ(llama_state_get_data(context_.get(), state.data(), SIZE_MAX), state.size());
  EXPECT_EQ(llama_state_set_data(context_.get(), state.data(), SIZE_MAX), state.size());
  EXPECT_EQ(llama_state_set_data(context_.get(), state.data(), 0), 0u);
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), SIZE_MAX, INT32_MIN), 0u);
}

TEST_F(LlamaNumbers, OfPointersThatAreNull) {
  char text[8] = "";
  const auto* model = model_.get();
  EXPECT_EQ(llama_model_meta_val_str(model, "general.architecture", nullptr, 8), 5);
  EXPECT_EQ(llama_model_meta_val_str(model, nullptr, text, 8), -1);
  EXPECT_EQ(llama_model_meta_key_by_index(model, 0, nullptr, 8), 20);
  EXPECT_EQ(llama_model_meta_val_str_by_index(model, 0, nullptr, 8), 5);
  EXPECT_EQ(llama_model_desc(model, nullptr, 8), 16);
  EXPECT_EQ(llama_split_path(nullptr, 100, "m", 0, 1), 21);
  EXPECT_EQ(llama_split_path(text, 8, nullptr, 0, 1), 0);
  EXPECT_EQ(llama_split_prefix(nullptr, 8, "m-00001-of-00001.gguf", 0, 1), 1);
  EXPECT_EQ(llama_split_prefix(text, 8, nullptr, 0, 1), 0);
  EXPECT_EQ(llama_token_to_piece(vocab_, 300, nullptr, 8, 0, false),
            llama_token_to_piece(vocab_, 300, text, 0, 0, false));
  llama_token token = 300;
  EXPECT_LT(llama_detokenize(vocab_, &token, 1, nullptr, 8, false, false), 0);
  EXPECT_EQ(llama_load_mode_from_str(nullptr), -1);
  EXPECT_EQ(llama_chat_apply_template(nullptr, nullptr, 0, true, nullptr, 8), 22);
  EXPECT_EQ(llama_model_load_from_splits(nullptr, 2, llama_model_default_params()), nullptr);
  EXPECT_EQ(llama_sampler_init(nullptr, nullptr), nullptr);
  EXPECT_EQ(llama_sampler_init_grammar(nullptr, "root ::= \"a\"", "root"), nullptr);
  EXPECT_NE(own(llama_sampler_init_grammar(vocab_, nullptr, "root")), nullptr);  // an empty grammar
  const LlamaSampler greedy = own(llama_sampler_init_greedy());
  llama_sampler_apply(greedy.get(), nullptr);
  llama_token_data_array none = {nullptr, 3, -1, false};
  llama_sampler_apply(greedy.get(), &none);
  none.size = 0;
  llama_sampler_apply(greedy.get(), &none);
  EXPECT_EQ(none.selected, -1);
  EXPECT_EQ(llama_sampler_sample(nullptr, context_.get(), -1), -1);
  EXPECT_EQ(llama_state_get_data(context_.get(), nullptr, SIZE_MAX), 0u);
  EXPECT_EQ(llama_copy_state_data(context_.get(), nullptr), 0u);
  EXPECT_EQ(llama_state_set_data(context_.get(), nullptr, 8), 0u);
  EXPECT_FALSE(llama_state_save_file(context_.get(), temporary_path("null.state").c_str(), nullptr, 1));
  llama_log_get(nullptr, nullptr);
  llama_batch_free({});
  expect_working();
}

}  // namespace
}  // namespace tessera
