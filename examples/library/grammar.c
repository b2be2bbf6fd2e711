/* Lets a model write JSON that fits a schema, whatever the model is.
 *
 *     cc grammar.c $(pkg-config --cflags --libs tessera) -o grammar
 *     ./grammar MODEL.gguf '{"type": "object", "properties": {"age": {"type": "integer"}}}' "Tom is three. JSON:" 64
 */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#define MAX_TOKENS 4096

static int failed(const tessera_error* error) {
  fprintf(stderr, "error: %s\n", error->text);
  return 1;
}

/* Prints the text, which the grammar ends when it is complete. Returns 0 for success. */
static int print_json(tessera_generation* generation, tessera_error* error) {
  tessera_generated next;
  do {
    if (tessera_generation_next(generation, &next, NULL, error) != TESSERA_OK) return failed(error);
    fwrite(next.text, 1, (size_t)next.n_bytes, stdout);
  } while (next.token >= 0);
  putchar('\n');
  if (next.stop == TESSERA_STOP_END) return 0;
  fprintf(stderr, "the text was cut, so it is not complete: allow more tokens\n");
  return 1;
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
  static int32_t prompt[MAX_TOKENS];
  uint64_t n_prompt = 0;
  int result = 1;
  if (argc < 4) {
    fprintf(stderr, "usage: grammar MODEL.gguf SCHEMA PROMPT [TOKENS]\n");
    return 2;
  }
  tessera_sampler_options_init(&sampling, sizeof sampling);
  sampling.temperature = 0; /* the most probable token of those that fit */
  tessera_generation_options_init(&options, sizeof options);
  options.n_predict = argc > 4 ? atoll(argv[4]) : 256;

  /* Other kinds of grammars are GBNF and regular expressions. One sampler may get one after another. */
  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_session_create(model, NULL, &session, &error) != TESSERA_OK ||
      tessera_sampler_create(model, &sampling, tessera_session_n_ctx(session), &sampler, &error) != TESSERA_OK ||
      tessera_sampler_set_grammar(sampler, TESSERA_GRAMMAR_JSON_SCHEMA, argv[2], -1, &error) != TESSERA_OK ||
      tessera_generation_create(session, sampler, 0, &options, &generation, &error) != TESSERA_OK ||
      tessera_tokenize(model, argv[3], -1, TESSERA_TOKENIZE_SPECIAL, prompt, MAX_TOKENS, &n_prompt, &error) !=
          TESSERA_OK ||
      tessera_generation_start(generation, prompt, n_prompt, NULL, &error) != TESSERA_OK) {
    failed(&error);
  } else {
    result = print_json(generation, &error);
  }
  tessera_generation_release(generation);
  tessera_sampler_release(sampler);
  tessera_session_release(session);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
