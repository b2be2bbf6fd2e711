/* Continues a text with a model.
 *
 *     cc simple.c $(pkg-config --cflags --libs tessera) -o simple
 *     ./simple MODEL.gguf "Once upon a time" 64
 */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

static int failed(const tessera_error* error) {
  fprintf(stderr, "error: %s\n", error->text);
  return 1;
}

/* Prints the text until it ends. Returns 0 for success. */
static int print_text(tessera_generation* generation, tessera_error* error) {
  tessera_generated next;
  do {
    if (tessera_generation_next(generation, &next, NULL, error) != TESSERA_OK) return failed(error);
    fwrite(next.text, 1, (size_t)next.n_bytes, stdout);
    fflush(stdout);
  } while (next.token >= 0);
  putchar('\n');
  return 0;
}

/* Returns the tokens of a text, which the caller frees; NULL after an error. */
static int32_t* tokens_of(const tessera_model* model, const char* text, uint64_t* count, tessera_error* error) {
  int32_t* tokens;
  tessera_status status = tessera_tokenize(model, text, -1, TESSERA_TOKENIZE_SPECIAL, NULL, 0, count, error);
  if (status != TESSERA_OK && status != TESSERA_LIMIT) return NULL;
  tokens = malloc((size_t)(*count + 1) * sizeof *tokens);
  if (tokens != NULL)
    status = tessera_tokenize(model, text, -1, TESSERA_TOKENIZE_SPECIAL, tokens, *count, count, error);
  if (tokens != NULL && status == TESSERA_OK) return tokens;
  free(tokens);
  return NULL;
}

int main(int argc, char** argv) {
  tessera_error error = TESSERA_ERROR_INIT;
  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_session* session = NULL;
  tessera_sampler* sampler = NULL;
  tessera_generation* generation = NULL;
  tessera_sampler_options sampling;
  tessera_generation_options options;
  int32_t* prompt = NULL;
  uint64_t n_prompt = 0;
  int result = 1;
  if (argc < 3) {
    fprintf(stderr, "usage: simple MODEL.gguf PROMPT [TOKENS]\n");
    return 2;
  }
  tessera_sampler_options_init(&sampling, sizeof sampling);
  sampling.temperature = 0; /* always the most probable token */
  tessera_generation_options_init(&options, sizeof options);
  options.n_predict = argc > 3 ? atoll(argv[3]) : 0;

  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_session_create(model, NULL, &session, &error) != TESSERA_OK ||
      tessera_sampler_create(model, &sampling, tessera_session_n_ctx(session), &sampler, &error) != TESSERA_OK ||
      tessera_generation_create(session, sampler, 0, &options, &generation, &error) != TESSERA_OK ||
      (prompt = tokens_of(model, argv[2], &n_prompt, &error)) == NULL ||
      tessera_generation_start(generation, prompt, n_prompt, NULL, &error) != TESSERA_OK) {
    failed(&error);
  } else {
    printf("%s", argv[2]);
    result = print_text(generation, &error);
  }
  free(prompt);
  tessera_generation_release(generation);
  tessera_sampler_release(sampler);
  tessera_session_release(session);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
