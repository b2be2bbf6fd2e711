/* Files that the library writes, adapters, and functions that are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static void show_file(const char* name, const char* path) {
  llama_model* model = CALL(model_load_from_file)(path, CALL(model_default_params)());
  if (model == NULL) {
    show(name, "cannot be loaded");
    return;
  }
  char text[128];
  CALL(model_desc)(model, text, sizeof text);
  if (strcmp(name, "saved") == 0) {
    differs(name, "the original does not save the file type", "%s, type %d", text, CALL(model_ftype)(model));
  } else {
    show(name, "%s, type %d", text, CALL(model_ftype)(model));
  }
  show(name, "%llu bytes, %llu values", (unsigned long long)CALL(model_size)(model),
       (unsigned long long)CALL(model_n_params)(model));
  CALL(model_free)(model);
}

void run_files(void) {
  llama_model_quantize_params params = CALL(model_quantize_default_params)();
  params.nthread = 1;
  const int32_t types[] = {0, 1, 2, 3, 7, 8, 9, 32};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    const char* path = path_of("quantized.gguf");
    params.ftype = types[i];
    show("quantize", "%d: %u", types[i], CALL(model_quantize)(program.model_path, path, &params));
    show_file("quantized", path);
  }
  params.ftype = 7;
  params.pure = true;
  show("quantize all", "%u", CALL(model_quantize)(program.model_path, path_of("pure.gguf"), &params));
  show_file("quantized", path_of("pure.gguf"));
  show("quantize nothing", "%u", CALL(model_quantize)("/no/such/file", path_of("none.gguf"), &params));
  CALL(model_save_to_file)(program.model, path_of("saved.gguf"));
  show_file("saved", path_of("saved.gguf"));
}

/* ---- a LoRA adapter of one matrix, with small numbers */

static void put(FILE* file, const void* bytes, size_t n) {
  require(fwrite(bytes, 1, n, file) == n, "a file is written");
}
static void put_u32(FILE* file, uint32_t value) { put(file, &value, sizeof value); }
static void put_u64(FILE* file, uint64_t value) { put(file, &value, sizeof value); }
static void put_text(FILE* file, const char* text) {
  put_u64(file, strlen(text));
  put(file, text, strlen(text));
}
static void put_key(FILE* file, const char* key, const char* value) {
  put_text(file, key);
  put_u32(file, 8);
  put_text(file, value);
}
static void put_matrix(FILE* file, const char* name, uint64_t columns, uint64_t rows, uint64_t offset) {
  put_text(file, name);
  put_u32(file, 2);
  put_u64(file, columns);
  put_u64(file, rows);
  put_u32(file, 0);
  put_u64(file, offset);
}

static const char* write_adapter(const char* name, int32_t width) {
  const char* path = path_of(name);
  FILE* file = fopen(path, "wb");
  require(file != NULL, "a file can be created");
  const uint64_t n = (uint64_t)width;
  put(file, "GGUF", 4);
  put_u32(file, 3);
  put_u64(file, 2);
  put_u64(file, 4);
  put_key(file, "general.architecture", "llama");
  put_key(file, "general.type", "adapter");
  put_key(file, "adapter.type", "lora");
  put_text(file, "adapter.lora.alpha");
  put_u32(file, 6);
  const float alpha = 64;
  put(file, &alpha, sizeof alpha);
  put_matrix(file, "blk.0.attn_q.weight.lora_a", n, 2, 0);
  put_matrix(file, "blk.0.attn_q.weight.lora_b", 2, n, 2 * n * sizeof(float));
  while (ftell(file) % 32 != 0) put(file, "", 1);
  for (uint64_t i = 0; i < 4 * n; ++i) {
    const float value = (float)((int)(i * 37 % 19) - 9) / 16;
    put(file, &value, sizeof value);
  }
  require(fclose(file) == 0, "a file is written");
  return path;
}

static void show_told_with(const char* name, llama_context* c) {
  llama_token tokens[64];
  const int32_t n = tokenize("Once upon a time", tokens, 64);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  require(decode(c, tokens, n) == 0, "a prompt can be decoded");
  show_row(name, CALL(get_logits_ith)(c, -1));
}

void run_adapters(void) {
  const int32_t width = CALL(model_n_embd)(program.model);
  llama_adapter_lora* adapter = CALL(adapter_lora_init)(program.model, write_adapter("lora.gguf", width));
  require(adapter != NULL, "an adapter");
  char key[64], value[64];
  const int32_t n = CALL(adapter_meta_count)(adapter);
  show("adapter", "%d keys, %llu tokens, %d", n,
       (unsigned long long)CALL(adapter_get_alora_n_invocation_tokens)(adapter),
       CALL(adapter_get_alora_invocation_tokens)(adapter) != NULL);
  show("no key", "%d %d", CALL(adapter_meta_key_by_index)(adapter, n, key, sizeof key),
       CALL(adapter_meta_val_str_by_index)(adapter, -1, value, sizeof value));
  for (int32_t i = 0; i < n; ++i) { /* in any order */
    const int32_t n_key = CALL(adapter_meta_key_by_index)(adapter, i, key, sizeof key);
    const int32_t n_value = CALL(adapter_meta_val_str_by_index)(adapter, i, value, sizeof value);
    require(n_key == (int32_t)strlen(key) && n_value == (int32_t)strlen(value), "lengths of a key and its value");
    char again[64];
    const int32_t n_again = CALL(adapter_meta_val_str)(adapter, key, again, sizeof again);
    require(n_again == n_value && strcmp(value, again) == 0, "the value of a key");
  }
  const char* const keys[] = {"general.architecture", "adapter.type", "adapter.lora.alpha", "no.such.key"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
    const int32_t length = CALL(adapter_meta_val_str)(adapter, keys[i], value, sizeof value);
    show("value", "%s %d %s", keys[i], length, quoted(value, -1));
  }
  show("no adapter", "%d", CALL(adapter_lora_init)(program.model, "/no/such/file") != NULL);
  show("another model's", "%d", CALL(adapter_lora_init)(program.model, write_adapter("wide.gguf", 2 * width)) != NULL);
  llama_context* c = create_context(small_context(256, 1));
  show_told_with("without", c);
  float scales[] = {1, -2};
  llama_adapter_lora* adapters[] = {adapter, adapter};
  show("set", "%d", CALL(set_adapters_lora)(c, adapters, 1, scales));
  show_told_with("with it", c);
  show("set", "%d", CALL(set_adapters_lora)(c, adapters, 1, scales + 1));
  show_told_with("with another scale", c);
  show("set", "%d", CALL(set_adapters_lora)(c, NULL, 0, NULL));
  show_told_with("without", c);
  const size_t n_values = (size_t)width * ((size_t)CALL(model_n_layer)(program.model) - 1);
  float* directions = calloc(n_values, sizeof *directions);
  for (size_t i = 0; i < n_values; ++i) directions[i] = (float)((int)(i * 29 % 23) - 11) / 24;
  show("control vector", "%d", CALL(set_adapter_cvec)(c, directions, n_values, width, 1, 3));
  show_told_with("with it", c);
  show("of another width", "%d", CALL(set_adapter_cvec)(c, directions, n_values, width + 1, 1, 3) == 0);
  show("no control vector", "%d", CALL(set_adapter_cvec)(c, NULL, 0, 0, 0, 0));
  show_told_with("without", c);
  free(directions);
  CALL(free)(c);
  CALL(adapter_lora_free)(adapter);
}

/* ---- functions that only the original has */

void run_refused(void) {
  llama_context* c = create_context(small_context(256, 1));
  CALL(attach_threadpool)(c, NULL, NULL);
  CALL(detach_threadpool)(c);
  const llama_token token = 1;
  show("decode after that", "%d", decode(c, &token, 1));
  differs("a sampler within a graph", "samplers do not run within a graph", "%d", CALL(set_sampler)(c, 0, NULL));
  differs("all parameters are trained", "tessera train trains models", "%d", CALL(opt_param_filter_all)(NULL, NULL));
  FILE* file = fopen(program.model_path, "rb");
  require(file != NULL, "the model can be opened");
  llama_model* model = CALL(model_load_from_file_ptr)(file, CALL(model_default_params)());
  differs("a model of an open file", "models are opened by their paths", "%d", model != NULL);
  CALL(model_free)(model);
  fclose(file);
  file = fopen(path_of("lora.gguf"), "rb");
  require(file != NULL, "the adapter can be opened");
  llama_adapter_lora* adapter = CALL(adapter_lora_init_from_file_ptr)(program.model, file);
  differs("an adapter of an open file", "adapters are opened by their paths", "%d", adapter != NULL);
  CALL(adapter_lora_free)(adapter);
  fclose(file);
  llama_opt_params params;
  memset(&params, 0, sizeof params);
  if (program.is_ours) {
    require(CALL(model_init_from_user)(NULL, NULL, NULL, CALL(model_default_params)()) == NULL, "no model of a user");
    CALL(opt_init)(c, program.model, params);
    CALL(opt_epoch)(c, NULL, NULL, NULL, 0, NULL, NULL);
  } else {
    ONLY_OURS(model_init_from_user);
    ONLY_OURS(opt_init);
    ONLY_OURS(opt_epoch);
  }
  CALL(free)(c);
}
