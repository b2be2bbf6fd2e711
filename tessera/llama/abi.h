// The types of llama.h that are the same in all of its versions since May 2026, as programs lay them out on 64-bit
// machines. Members are described by their offsets in the documented layouts; enumerations are plain numbers. Structs
// that differ between versions are in layouts/.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_adapter_lora;
struct llama_memory_i;
struct gguf_context;
struct ggml_tensor;

using llama_token = int32_t;
using llama_pos = int32_t;
using llama_seq_id = int32_t;
using llama_memory_t = llama_memory_i*;

/// Returns false to stop loading.
using llama_progress_callback = bool (*)(float progress, void* user);
/// Returns true to stop computing.
using ggml_abort_callback = bool (*)(void* user);
using ggml_log_callback = void (*)(int level, const char* text, void* user);

struct llama_batch {
  int32_t n_tokens;
  llama_token* token;
  float* embd;
  llama_pos* pos;
  int32_t* n_seq_id;
  llama_seq_id** seq_id;
  int8_t* logits;
};

struct llama_token_data {
  llama_token id;
  float logit;
  float p;
};

struct llama_token_data_array {
  llama_token_data* data;
  size_t size;
  int64_t selected;  // an index, -1: none
  bool sorted;       // by falling logit
};

struct llama_logit_bias {
  llama_token token;
  float bias;
};

struct llama_chat_message {
  const char* role;
  const char* content;
};

struct llama_sampler_chain_params {
  bool no_perf;
};

struct llama_perf_context_data {
  double t_start_ms, t_load_ms, t_p_eval_ms, t_eval_ms;
  int32_t n_p_eval, n_eval, n_reused;
};

struct llama_perf_sampler_data {
  double t_sample_ms;
  int32_t n_sample;
};

struct llama_sampler;

/// The functions of a sampler. Programs make tables of their own, of which only the first six members are read.
struct llama_sampler_i {
  const char* (*name)(const llama_sampler* sampler);
  void (*accept)(llama_sampler* sampler, llama_token token);
  void (*apply)(llama_sampler* sampler, llama_token_data_array* candidates);
  void (*reset)(llama_sampler* sampler);
  llama_sampler* (*clone)(const llama_sampler* sampler);
  void (*free)(llama_sampler* sampler);
  void (*experimental[6])();  // null in our tables
};

struct llama_sampler {
  llama_sampler_i* iface;
  void* ctx;
};

/// One value that replaces a key of the file. The value is 8 bytes, or text that ends with a NUL.
struct llama_model_kv_override {
  int32_t tag;
  char key[128];
  union {
    int64_t integer;
    double number;
    bool flag;
    char text[128];
  } value;
};

}  // extern "C"

static_assert(sizeof(llama_batch) == 56 && offsetof(llama_batch, token) == 8 && offsetof(llama_batch, logits) == 48);
static_assert(sizeof(llama_token_data) == 12 && sizeof(llama_logit_bias) == 8 && sizeof(llama_chat_message) == 16);
static_assert(sizeof(llama_token_data_array) == 32 && offsetof(llama_token_data_array, selected) == 16 &&
              offsetof(llama_token_data_array, sorted) == 24);
static_assert(sizeof(llama_perf_context_data) == 48 && offsetof(llama_perf_context_data, n_reused) == 40);
static_assert(sizeof(llama_perf_sampler_data) == 16 && sizeof(llama_sampler_chain_params) == 1);
static_assert(sizeof(llama_sampler) == 16 && sizeof(llama_sampler_i) == 96);
static_assert(sizeof(llama_model_kv_override) == 264 && offsetof(llama_model_kv_override, value) == 136);
