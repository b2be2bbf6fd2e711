/* llama_program LIBRARY MODEL FOLDER [--ours] [--differences] [--log]
   Loads a libllama, calls each of its functions, and prints what it gets. FOLDER is for files that it writes.
   --ours: also calls what the original aborts on. --differences: prints values that differ by design.
   --log: passes the log to stderr. */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

struct llama_functions llama;
struct program program;

static int n_calls[N_FUNCTIONS];
static bool passes_log;

void note_call(enum llama_function function) { ++n_calls[function]; }

static const char* const names[] = {
#define LLAMA_FUNCTION(result, name, parameters) "llama_" #name,
#include "llama_functions.def"
#undef LLAMA_FUNCTION
};

static void log_line(int32_t level, const char* text, void* user) {
  (void)level;
  (void)user;
  if (passes_log) fputs(text, stderr);
}

/* ISO C has no cast from an object's pointer to a function's. */
static void* address_of(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == NULL) {
    fprintf(stderr, "error: %s\n", dlerror());
    exit(2);
  }
  return address;
}

static void find_functions(void* library) {
  void* address = NULL;
#define LLAMA_FUNCTION(result, name, parameters) \
  address = address_of(library, "llama_" #name); \
  memcpy(&llama.name, &address, sizeof address);
#include "llama_functions.def"
#undef LLAMA_FUNCTION
}

/* The backends of the original's ggml are libraries beside it, which a program loads. */
static void load_backends(void* library, const char* path) {
  void (*load)(const char* folder) = NULL;
  void* address = dlsym(library, "ggml_backend_load_all_from_path");
  if (address == NULL) return;
  memcpy(&load, &address, sizeof address);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char* slash = strrchr(folder, '/');
  if (slash != NULL) *slash = '\0';
  load(folder);
}

static void count_calls(void) {
  int n_called = 0;
  for (int i = 0; i < N_FUNCTIONS; ++i) {
    if (n_calls[i] == 0) fprintf(stderr, "not called: %s\n", names[i]);
    n_called += n_calls[i] > 0;
  }
  show("functions that were called", "%d of %d", n_called, (int)N_FUNCTIONS);
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: llama_program LIBRARY MODEL FOLDER [--ours] [--differences] [--log]\n");
    return 2;
  }
  program.model_path = argv[2];
  program.folder = argv[3];
  for (int i = 4; i < argc; ++i) {
    if (strcmp(argv[i], "--ours") == 0) program.is_ours = true;
    if (strcmp(argv[i], "--differences") == 0) program.shows_differences = true;
    if (strcmp(argv[i], "--log") == 0) passes_log = true;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "error: %s\n", dlerror());
    return 2;
  }
  find_functions(library);
  CALL(log_set)(log_line, NULL);
  load_backends(library, argv[1]);
  CALL(backend_init)();
  run_library();
  run_templates();
  run_model();
  run_vocabulary();
  run_texts();
  run_context();
  run_embeddings();
  run_memory();
  run_states();
  run_samplers();
  run_chains();
  run_grammars();
  run_files();
  run_adapters();
  run_refused();
  CALL(model_free)(program.model);
  CALL(backend_free)();
  count_calls();
  return 0;
}
