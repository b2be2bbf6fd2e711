// The library and names of llama.h.
#include <cstring>

#include "tests/llama/llama_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(LlamaLibrary, DefaultsAreThoseOfTheHeader) {
  const llama_model_params model = llama_model_default_params();
  EXPECT_EQ(model.n_gpu_layers, -1);
  EXPECT_EQ(model.split_mode, 1);
  EXPECT_EQ(model.load_mode, -1);
  EXPECT_EQ(model.lazy_mode, 1);
  EXPECT_EQ(model.main_gpu, 0);
  EXPECT_TRUE(model.use_extra_bufts);
  EXPECT_FALSE(model.vocab_only || model.check_tensors || model.no_host || model.no_alloc || model.load_mtp);
  EXPECT_EQ(model.devices, nullptr);
  const llama_context_params context = llama_context_default_params();
  EXPECT_EQ(context.n_ctx, 512u);
  EXPECT_EQ(context.n_batch, 2048u);
  EXPECT_EQ(context.n_ubatch, 512u);
  EXPECT_EQ(context.n_seq_max, 1u);
  EXPECT_EQ(context.n_outputs_max_per_seq, 1u);
  EXPECT_EQ(context.n_threads, 4);
  EXPECT_EQ(context.n_threads_batch, 4);
  EXPECT_EQ(context.ctx_type, 0);
  for (const int32_t type :
       {context.rope_scaling_type, context.pooling_type, context.attention_type, context.flash_attn_type})
    EXPECT_EQ(type, -1);
  EXPECT_EQ(context.rope_freq_base, 0);
  EXPECT_EQ(context.rope_freq_scale, 0);
  for (const float factor : {context.yarn_ext_factor, context.yarn_attn_factor, context.yarn_beta_fast,
                             context.yarn_beta_slow, context.defrag_thold})
    EXPECT_EQ(factor, -1);
  EXPECT_EQ(context.type_k, 1);
  EXPECT_EQ(context.type_v, 1);
  EXPECT_TRUE(context.offload_kqv && context.no_perf && context.op_offload && context.swa_full);
  EXPECT_FALSE(context.embeddings || context.kv_unified);
  const llama_model_quantize_params quantize = llama_model_quantize_default_params();
  EXPECT_EQ(quantize.ftype, 7);
  EXPECT_EQ(quantize.output_tensor_type, 43);
  EXPECT_EQ(quantize.token_embedding_type, 43);
  EXPECT_TRUE(quantize.quantize_output_tensor);
  EXPECT_FALSE(quantize.allow_requantize || quantize.only_copy || quantize.pure || quantize.keep_split);
  EXPECT_EQ(quantize.max_buf_size, size_t{8} << 30);
  EXPECT_TRUE(llama_sampler_chain_default_params().no_perf);
}

TEST(LlamaLibrary, NamesItsNumbers) {
  const LogLines log;
  EXPECT_STREQ(llama_ftype_name(0), "all F32");
  EXPECT_STREQ(llama_ftype_name(15), "Q4_K - Medium");
  EXPECT_STREQ(llama_ftype_name(1024 + 7), "(guessed) Q8_0");
  EXPECT_STREQ(llama_ftype_name(4), "unknown, may not work");
  EXPECT_STREQ(llama_ftype_name(-1), "(guessed) unknown, may not work");
  EXPECT_STREQ(llama_flash_attn_type_name(-1), "auto");
  EXPECT_STREQ(llama_flash_attn_type_name(1), "enabled");
  EXPECT_STREQ(llama_flash_attn_type_name(2), "unknown");
  EXPECT_STREQ(llama_load_mode_name(3), "mmap+mlock");
  EXPECT_STREQ(llama_load_mode_name(5), "unknown");
  for (const int32_t mode : {-1, 0, 1, 2, 3, 4}) EXPECT_EQ(llama_load_mode_from_str(llama_load_mode_name(mode)), mode);
  EXPECT_STREQ(llama_model_meta_key_str(0), "general.sampling.sequence");
  EXPECT_STREQ(llama_model_meta_key_str(11), "general.sampling.mirostat_eta");
  EXPECT_EQ(llama_model_meta_key_str(12), nullptr);
  EXPECT_EQ(llama_model_meta_key_str(-1), nullptr);
  EXPECT_TRUE(std::string(llama_version()).starts_with("0.5.0"));
  EXPECT_NE(std::string(llama_print_system_info()), "");
}

// The original ends the program here.
TEST(LlamaLibrary, RefusesUnknownLoadModes) {
  LogLines log;
  EXPECT_EQ(llama_load_mode_from_str("fast"), -1);
  EXPECT_EQ(log.take(), "llama_load_mode_from_str: unknown load mode 'fast'\n");
  EXPECT_EQ(log.last_level(), 4);
  EXPECT_EQ(llama_load_mode_from_str(nullptr), -1);
  EXPECT_EQ(log.take(), "llama_load_mode_from_str: str: is NULL\n");
}

TEST(LlamaLibrary, StatesWhatItSupports) {
  EXPECT_EQ(llama_max_devices(), 16u);
  EXPECT_EQ(llama_max_parallel_sequences(), 256u);
  EXPECT_EQ(llama_max_tensor_buft_overrides(), 4096u);
  EXPECT_TRUE(llama_supports_mmap());
  EXPECT_TRUE(llama_supports_mlock());
  EXPECT_FALSE(llama_supports_rpc());
  llama_supports_gpu_offload();  // depends on the machine
  llama_backend_init();
  llama_backend_free();
  const int64_t before = llama_time_us();
  EXPECT_GE(llama_time_us(), before);
}

TEST(LlamaLibrary, NamesPartsOfModels) {
  char path[40];
  EXPECT_EQ(llama_split_path(path, sizeof path, "/a/b", 2, 5), 24);
  EXPECT_STREQ(path, "/a/b-00003-of-00005.gguf");
  EXPECT_EQ(llama_split_path(path, 25, "/a/b", 2, 5), 24);
  EXPECT_EQ(llama_split_path(path, 24, "/a/b", 2, 5), 0);
  EXPECT_EQ(llama_split_prefix(path, sizeof path, "/a/b-00003-of-00005.gguf", 2, 5), 4);
  EXPECT_STREQ(path, "/a/b");
  EXPECT_EQ(llama_split_prefix(path, 3, "/a/b-00003-of-00005.gguf", 2, 5), 4);
  EXPECT_STREQ(path, "/a");
  EXPECT_EQ(llama_split_prefix(path, sizeof path, "/a/b-00003-of-00005.gguf", 1, 5), 0);
  EXPECT_EQ(llama_split_prefix(path, sizeof path, "/a/b-00003-of-00005.gguf", 2, 6), 0);
  EXPECT_EQ(llama_split_prefix(path, sizeof path, "/a/b.gguf", 0, 1), 0);
  const LogLines log;
  EXPECT_EQ(llama_split_path(path, sizeof path, nullptr, 0, 1), 0);
  EXPECT_EQ(llama_split_path(path, sizeof path, "x", -1, 1), 0);
  EXPECT_EQ(llama_split_prefix(path, sizeof path, nullptr, 0, 1), 0);
}

TEST(LlamaLibrary, ReturnsItsLogFunction) {
  ggml_log_callback callback = nullptr;
  void* user = nullptr;
  {
    LogLines log;
    llama_log_get(&callback, &user);
    EXPECT_NE(callback, nullptr);
    EXPECT_EQ(user, &log);
    llama_numa_init(0);
    EXPECT_EQ(log.take(), "");
    llama_numa_init(1);
    EXPECT_NE(log.take().find("llama_numa_init: ignored"), std::string::npos);
    EXPECT_EQ(log.last_level(), 3);
    llama_log_get(nullptr, nullptr);
  }
  llama_log_get(&callback, &user);
  EXPECT_EQ(user, nullptr);
  ASSERT_NE(callback, nullptr);  // programs call it
  ::testing::internal::CaptureStderr();
  for (const int level : {1, 2, 4}) callback(level, std::to_string(level).c_str(), user);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "24");
}

TEST(LlamaLibrary, WritesToStderrWithoutALogFunction) {
  ::testing::internal::CaptureStderr();
  llama_load_mode_from_str("x");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "llama_load_mode_from_str: unknown load mode 'x'\n");
}

TEST(LlamaLibrary, RefusesWhatIsNotBuilt) {
  LogLines log;
  const auto refuses = [&](const std::string& name) { EXPECT_NE(log.take().find(name + ": "), std::string::npos); };
  EXPECT_FALSE(llama_set_sampler(nullptr, 0, nullptr));
  refuses("llama_set_sampler");
  EXPECT_EQ(llama_model_load_from_file_ptr(nullptr, llama_model_default_params()), nullptr);
  refuses("llama_model_load_from_file_ptr");
  EXPECT_EQ(llama_model_init_from_user(nullptr, nullptr, nullptr, llama_model_default_params()), nullptr);
  EXPECT_EQ(log.last_level(), 2);
  refuses("llama_model_init_from_user");
  EXPECT_EQ(llama_adapter_lora_init_from_file_ptr(nullptr, nullptr), nullptr);
  refuses("llama_adapter_lora_init_from_file_ptr");
  EXPECT_FALSE(llama_opt_param_filter_all(nullptr, nullptr));
  refuses("llama_opt_param_filter_all");
  llama_opt_init(nullptr, nullptr, {});
  refuses("llama_opt_init");
  llama_opt_epoch(nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr);
  refuses("llama_opt_epoch");
  llama_attach_threadpool(nullptr, nullptr, nullptr);
  refuses("llama_attach_threadpool");
  llama_detach_threadpool(nullptr);
  EXPECT_EQ(log.take(), "");
}

}  // namespace
}  // namespace tessera
