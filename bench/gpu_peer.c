/* Times the prebuilt GPU libraries of llama.cpp (npm: @node-llama-cpp/linux-x64-vulkan, -cuda) on a model file: the
 * peer of tessera bench in scripts/gpu_check.sh.
 *
 *   cc -O2 -o gpu_peer gpu_peer.c -ldl
 *   gpu_peer LIBDIR MODEL.gguf N_PROMPT N_GEN N_UBATCH,... REPEATS
 *
 * Prints one line for each repeat: micro-batch, prompt tokens/s, generated tokens/s (wall clock, without a sampler).
 * The first round of each micro-batch warms up and is not printed. The library offloads all layers and picks flash
 * attention itself. GPU_PEER_LOG names a file for its log, which shows both. Of the parameter structs, only fields at
 * the start are touched, and only where their default values are the expected ones.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatch = 2048, kDefaultUbatch = 512, kAllLayers = 99 };

/* A parameter struct, passed by value on the stack. It is larger than the real ones. */
typedef struct {
  _Alignas(8) unsigned char bytes[2048];
} Params;

typedef struct {
  int32_t n_tokens;
  int32_t* token;
  float* embd;
  int32_t* pos;
  int32_t* n_seq_id;
  int32_t** seq_id;
  int8_t* logits;
} Batch;

static Params (*model_default_params)(void);
static Params (*context_default_params)(void);
static void* (*load_model)(const char*, Params);
static void* (*init_context)(void*, Params);
static void (*free_context)(void*);
static uint32_t (*n_ubatch_of)(const void*);
static void (*set_n_threads)(void*, int32_t, int32_t);
static const void* (*get_vocab)(const void*);
static int32_t (*vocab_size)(const void*);
static Batch (*batch_of)(int32_t*, int32_t);
static int32_t (*decode)(void*, Batch);
static float* (*get_logits)(void*, int32_t);
static void (*synchronize)(void*);
static void* (*get_memory)(const void*);
static void (*clear_memory)(void*, int);

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "gpu_peer: %s: %s\n", what, detail);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void log_line(int level, const char* text, void* file) {
  if (file && level != 1) fputs(text, file); /* 1: for debugging */
}

static void* open_library(const char* folder, const char* prefix) {
  DIR* entries = opendir(folder);
  struct dirent* entry;
  char path[4096] = "";
  if (!entries) fail("cannot open folder", folder);
  while (!path[0] && (entry = readdir(entries)))
    if (!strncmp(entry->d_name, prefix, strlen(prefix))) snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
  closedir(entries);
  if (!path[0]) fail("no library in folder", prefix);
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail("cannot load library", dlerror());
  return library;
}

static void find(void* library, const char* name, void* function) {
  void* address = dlsym(library, name);
  if (!address) fail("no such function", name);
  memcpy(function, &address, sizeof address);
}

static void find_functions(const char* folder) {
  void (*load_backends)(const char*);
  void (*set_log)(void (*)(int, const char*, void*), void*);
  void (*init_backend)(void);
  int (*has_gpu)(void);
  open_library(folder, "libggml-base");
  void* ggml = open_library(folder, "libggml.");
  void* llama = open_library(folder, "libllama.");
  find(ggml, "ggml_backend_load_all_from_path", &load_backends);
  find(llama, "llama_log_set", &set_log);
  find(llama, "llama_backend_init", &init_backend);
  find(llama, "llama_supports_gpu_offload", &has_gpu);
  find(llama, "llama_model_default_params", &model_default_params);
  find(llama, "llama_context_default_params", &context_default_params);
  find(llama, "llama_model_load_from_file", &load_model);
  find(llama, "llama_init_from_model", &init_context);
  find(llama, "llama_free", &free_context);
  find(llama, "llama_n_ubatch", &n_ubatch_of);
  find(llama, "llama_set_n_threads", &set_n_threads);
  find(llama, "llama_model_get_vocab", &get_vocab);
  find(llama, "llama_vocab_n_tokens", &vocab_size);
  find(llama, "llama_batch_get_one", &batch_of);
  find(llama, "llama_decode", &decode);
  find(llama, "llama_get_logits_ith", &get_logits);
  find(llama, "llama_synchronize", &synchronize);
  find(llama, "llama_get_memory", &get_memory);
  find(llama, "llama_memory_clear", &clear_memory);
  const char* path = getenv("GPU_PEER_LOG");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (file) setvbuf(file, NULL, _IOLBF, 0);
  set_log(log_line, file);
  load_backends(folder);
  init_backend();
  if ((has_gpu() & 0xff) == 0) fail("the library finds no GPU", folder); /* a bool sets only the low byte */
}

/* The same arbitrary ids as in tessera bench. */
static int32_t token_at(int position, int n_vocab) { return (int32_t)((position * 7919LL + 13) % n_vocab); }

static void run(void* context, int32_t* tokens, int32_t n) {
  if (decode(context, batch_of(tokens, n))) fail("decode failed", "see GPU_PEER_LOG");
}

/* Runs one repetition and stores its seconds: [0] for the prompt, [1] for the generated tokens. */
static void measure(void* context, int32_t* prompt, int n_prompt, int n_gen, int n_vocab, double seconds[2]) {
  clear_memory(get_memory(context), 1);
  synchronize(context);
  const double start = now();
  for (int i = 0; i < n_prompt; i += kBatch) run(context, prompt + i, n_prompt - i < kBatch ? n_prompt - i : kBatch);
  if (n_prompt > 0) get_logits(context, -1);
  seconds[0] = now() - start;
  if (n_gen == 0) return;
  /* Generation starts on an empty cache, as in tessera bench. */
  clear_memory(get_memory(context), 1);
  synchronize(context);
  const double middle = now();
  for (int i = 0; i < n_gen; i++) {
    int32_t token = token_at(i, n_vocab);
    run(context, &token, 1);
    get_logits(context, -1);
  }
  seconds[1] = now() - middle;
}

int main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: %s LIBDIR MODEL N_PROMPT N_GEN N_UBATCH,... REPEATS\n", argv[0]);
    return 2;
  }
  const int n_prompt = atoi(argv[3]), n_gen = atoi(argv[4]), n_repeats = atoi(argv[6]);
  find_functions(argv[1]);

  Params model_params = model_default_params();
  int32_t n_layers;
  memcpy(&n_layers, model_params.bytes + 2 * sizeof(void*), sizeof n_layers); /* after two pointers */
  if (n_layers != -1 && n_layers != 0 && n_layers < kAllLayers) fail("another struct", "llama_model_params");
  n_layers = kAllLayers;
  memcpy(model_params.bytes + 2 * sizeof(void*), &n_layers, sizeof n_layers);
  void* model = load_model(argv[2], model_params);
  if (!model) fail("cannot load model", argv[2]);

  const int n_vocab = vocab_size(get_vocab(model));
  int32_t* prompt = malloc(sizeof *prompt * (size_t)(n_prompt + 1));
  for (int i = 0; i < n_prompt; i++) prompt[i] = token_at(i, n_vocab);

  for (const char* list = argv[5]; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
    const uint32_t n_ubatch = (uint32_t)atoi(list);
    Params params = context_default_params();
    uint32_t head[3]; /* n_ctx, n_batch, n_ubatch */
    memcpy(head, params.bytes, sizeof head);
    if (head[1] != kBatch || head[2] != kDefaultUbatch) fail("another struct", "llama_context_params");
    head[0] = (uint32_t)(n_prompt + n_gen + 64);
    if (head[0] < n_ubatch) head[0] = n_ubatch; /* the context's size limits both batches */
    head[2] = n_ubatch;
    memcpy(params.bytes, head, sizeof head);
    void* context = init_context(model, params);
    if (!context) fail("cannot create a context", list);
    if (n_ubatch_of(context) != n_ubatch) fail("the micro-batch is not as set", list);
    set_n_threads(context, 8, 8);
    for (int i = -1; i < n_repeats; i++) {
      double seconds[2] = {0, 0};
      measure(context, prompt, n_prompt, n_gen, n_vocab, seconds);
      if (i < 0) continue;
      printf("ub %u pp%d %.2f tg%d %.2f\n", n_ubatch, n_prompt, n_prompt > 0 ? n_prompt / seconds[0] : 0.0, n_gen,
             n_gen > 0 ? n_gen / seconds[1] : 0.0);
      fflush(stdout);
    }
    free_context(context);
  }
  return 0;
}
