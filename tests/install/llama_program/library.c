/* Functions that need no model: names, defaults, limits, paths, templates and the log. */
#include <stdio.h>
#include <string.h>

#include "program.h"

static void show_names(void) {
  for (int32_t i = -1; i <= 42; ++i) show("file type", "%d %s", i, CALL(ftype_name)(i));
  show("file type", "guessed: %s, %s", CALL(ftype_name)(1024), CALL(ftype_name)(1024 + 15));
  for (int32_t i = -1; i <= 1; ++i) show("flash attention", "%d %s", i, CALL(flash_attn_type_name)(i));
  for (int32_t i = -1; i <= 4; ++i)
    show("load mode", "%d %s %d", i, CALL(load_mode_name)(i), CALL(load_mode_from_str)(CALL(load_mode_name)(i)));
  for (int32_t i = -1; i <= 12; ++i) show("key of samplers", "%d %s", i, quoted(CALL(model_meta_key_str)(i), -1));
  show("version", "%.5s", CALL(version)());
  differs("version", "ours says whose it is", "%s", CALL(version)());
  require(strlen(CALL(print_system_info)()) > 0, "a text about the system");
}

static void show_model_params(void) {
  const llama_model_params p = CALL(model_default_params)();
  show("model params", "n_gpu_layers %d, split_mode %d, load_mode %d, lazy_mode %d, main_gpu %d", p.n_gpu_layers,
       p.split_mode, p.load_mode, p.lazy_mode, p.main_gpu);
  show("model params", "vocab_only %d, check_tensors %d, use_extra_bufts %d, no_host %d, no_alloc %d, load_mtp %d",
       p.vocab_only, p.check_tensors, p.use_extra_bufts, p.no_host, p.no_alloc, p.load_mtp);
  show("model params", "none of %d pointers is set",
       (int)(p.devices == NULL && p.tensor_buft_overrides == NULL && p.tensor_split == NULL &&
             p.progress_callback == NULL && p.progress_callback_user_data == NULL && p.kv_overrides == NULL) *
           6);
}

static void show_context_params(void) {
  const llama_context_params p = CALL(context_default_params)();
  show("context params", "n_ctx %u, n_batch %u, n_ubatch %u, n_seq_max %u, n_rs_seq %u", p.n_ctx, p.n_batch, p.n_ubatch,
       p.n_seq_max, p.n_rs_seq);
  show("context params", "n_outputs_max %u, n_outputs_max_per_seq %u, n_threads %d, n_threads_batch %d",
       p.n_outputs_max, p.n_outputs_max_per_seq, p.n_threads, p.n_threads_batch);
  show("context params", "ctx_type %d, rope_scaling_type %d, pooling_type %d, attention_type %d, flash_attn_type %d",
       p.ctx_type, p.rope_scaling_type, p.pooling_type, p.attention_type, p.flash_attn_type);
  show("context params", "rope_freq_base %g, rope_freq_scale %g, yarn_ext_factor %g, yarn_attn_factor %g",
       (double)p.rope_freq_base, (double)p.rope_freq_scale, (double)p.yarn_ext_factor, (double)p.yarn_attn_factor);
  show("context params",
       "yarn_beta_fast %g, yarn_beta_slow %g, yarn_orig_ctx %u, defrag_thold %g, type_k %d, type_v %d",
       (double)p.yarn_beta_fast, (double)p.yarn_beta_slow, p.yarn_orig_ctx, (double)p.defrag_thold, p.type_k, p.type_v);
  show("context params", "embeddings %d, offload_kqv %d, no_perf %d, op_offload %d, swa_full %d, kv_unified %d",
       p.embeddings, p.offload_kqv, p.no_perf, p.op_offload, p.swa_full, p.kv_unified);
  show("context params", "none of %d pointers is set",
       (int)(p.cb_eval == NULL && p.cb_eval_user_data == NULL && p.abort_callback == NULL &&
             p.abort_callback_data == NULL && p.samplers == NULL && p.n_samplers == 0 && p.ctx_other == NULL) *
           7);
}

static void show_other_params(void) {
  const llama_model_quantize_params p = CALL(model_quantize_default_params)();
  show("quantize params", "nthread %d, ftype %d, output_tensor_type %d, token_embedding_type %d", p.nthread, p.ftype,
       p.output_tensor_type, p.token_embedding_type);
  show("quantize params", "allow_requantize %d, quantize_output_tensor %d, only_copy %d, pure %d, keep_split %d",
       p.allow_requantize, p.quantize_output_tensor, p.only_copy, p.pure, p.keep_split);
  show("quantize params", "dry_run %d, max_buf_size %zu, pointers %d", p.dry_run, p.max_buf_size,
       p.imatrix != NULL || p.kv_overrides != NULL || p.tt_overrides != NULL || p.prune_layers != NULL);
  show("chain params", "no_perf %d", CALL(sampler_chain_default_params)().no_perf);
}

static void show_limits(void) {
  show("limits", "%zu devices, %zu sequences, %zu overrides", CALL(max_devices)(), CALL(max_parallel_sequences)(),
       CALL(max_tensor_buft_overrides)());
  show("supports", "mmap %d, mlock %d", CALL(supports_mmap)(), CALL(supports_mlock)());
  differs("supports", "depends on the machine and the build", "gpu %d, rpc %d", CALL(supports_gpu_offload)(),
          CALL(supports_rpc)());
  const int64_t begin = CALL(time_us)();
  require(CALL(time_us)() >= begin && begin > 0, "a clock that does not go back");
  CALL(numa_init)(0);
}

static void show_split_paths(void) {
  char path[64];
  const char* const prefixes[] = {"model", "/a/b-c", ""};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; ++i) {
    const int32_t n = CALL(split_path)(path, sizeof path, prefixes[i], 1, 12);
    show("split path", "%d %s", n, path);
  }
  memset(path, 0, sizeof path);
  const int32_t n = CALL(split_path)(path, 10, "model", 0, 2);
  show("split path in 10 bytes", "%d %s", n, path);
  struct {
    const char* path;
    int32_t no, count;
  } const cases[] = {{"model-00002-of-00012.gguf", 1, 12},
                     {"/a/b-c-00001-of-00001.gguf", 0, 1},
                     {"model-00002-of-00012.gguf", 0, 12},
                     {"model-00002-of-00012.gguf", 1, 11},
                     {"model.gguf", 0, 1},
                     {"", 0, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    strcpy(path, "unchanged");
    const int32_t length = CALL(split_prefix)(path, sizeof path, cases[i].path, cases[i].no, cases[i].count);
    show("split prefix", "%d %s", length, path);
  }
  memset(path, 0, sizeof path);
  const int32_t length = CALL(split_prefix)(path, 4, "model-00001-of-00002.gguf", 0, 2);
  show("split prefix in 4 bytes", "%d %s", length, path);
}

static void show_log(void) {
  ggml_log_callback callback = NULL, again = NULL;
  void* user = NULL;
  CALL(log_get)(&callback, &user);
  CALL(log_set)(callback, &user);
  void* user_again = NULL;
  CALL(log_get)(&again, &user_again);
  show("log", "callback %d, user %d", callback != NULL && again == callback, user_again == (void*)&user);
  CALL(log_set)(NULL, NULL);
  CALL(log_get)(&again, &user_again);
  show("log of nobody", "callback %d, user %d", again != NULL, user_again != NULL);
  CALL(log_set)(callback, user);
}

void run_library(void) {
  show_names();
  show_model_params();
  show_context_params();
  show_other_params();
  show_limits();
  show_split_paths();
  show_log();
}

static void show_chat(const char* name, const char* source, const llama_chat_message* messages, size_t n, bool asks) {
  char text[2048];
  const int32_t length = CALL(chat_apply_template)(source, messages, n, asks, text, sizeof text);
  show(name, "%d %s", length, length > 0 ? quoted(text, length) : "none");
}

/* Short names of templates that both libraries know and render to the same text. */
static const char* const template_names[] = {"bailing",        "bailing-think",
                                             "chatglm3",       "chatglm4",
                                             "chatml",         "command-r",
                                             "deepseek",       "deepseek2",
                                             "deepseek3",      "exaone-moe",
                                             "exaone3",        "falcon3",
                                             "glmedge",        "gpt-oss",
                                             "granite",        "granite-4.0",
                                             "grok-2",         "kimi-k2",
                                             "llama2",         "llama2-sys",
                                             "llama2-sys-bos", "llama2-sys-strip",
                                             "llama3",         "llama4",
                                             "megrez",         "mistral-v1",
                                             "mistral-v3",     "mistral-v3-tekken",
                                             "mistral-v7",     "mistral-v7-tekken",
                                             "openchat",       "pangu-embedded",
                                             "phi3",           "phi4",
                                             "rwkv-world",     "seed_oss",
                                             "smolvlm",        "solar-open",
                                             "vicuna",         "vicuna-orca",
                                             "zephyr"};

static const char* const chatml_source =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

void run_templates(void) {
  const llama_chat_message messages[] = {
      {"system", "Be short."}, {"user", "Hi \"you\""}, {"assistant", "Hello!"}, {"user", " Bye\n"}};
  const char* all[256];
  const int32_t n = CALL(chat_builtin_templates)(all, 256);
  show("templates", "%d", n > 40);
  differs("templates", "three short names are not known", "%d", n);
  for (size_t i = 0; i < sizeof template_names / sizeof *template_names; ++i) {
    show("template", "%s", template_names[i]);
    show_chat(" with 4 messages", template_names[i], messages, 4, true);
    show_chat(" without a system", template_names[i], messages + 1, 2, false);
  }
  show_chat("a template's source", chatml_source, messages, 4, true);
  show_chat("a template's source", chatml_source, messages + 1, 2, false);
  show_chat("no messages", "chatml", messages, 0, true);
  show_chat("unknown template", "no such template", messages, 4, true);
  char text[16];
  show("chat in 8 bytes", "%d", CALL(chat_apply_template)("chatml", messages, 4, true, text, 8));
  const char* few[2] = {NULL, NULL};
  const int32_t n_all = CALL(chat_builtin_templates)(few, 2);
  show("two templates", "%d, %d %d", n_all == n, few[0] != NULL, few[1] != NULL);
}
