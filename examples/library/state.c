/* Continues a prompt that is computed once: the first run saves the state behind the prompt to a file, later runs read
 * it. For a long prompt that is much faster, and the text is the same.
 *
 *     cc state.c $(pkg-config --cflags --libs tessera) -o state
 *     ./state MODEL.gguf prompt.state "Once upon a time" 64
 */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#define MAX_TOKENS 4096

/* Brings the first `count` > 0 tokens of the prompt to sequence 0: from the file, else by computing and saving them. */
static tessera_status prepare(tessera_session* session, const char* path, const int32_t* prompt, uint64_t count,
                              tessera_error* error) {
  tessera_status status = tessera_sequence_restore_file(session, 0, path, error);
  if (status == TESSERA_OK) {
    int32_t last = -1;
    tessera_sequence_range(session, 0, NULL, &last, NULL);
    fprintf(stderr, "restored %d tokens\n", (int)(last + 1));
    if ((uint64_t)(last + 1) == count) return TESSERA_OK;
    fprintf(stderr, "they are of another prompt\n"); /* of this length: a program would save the tokens, too */
    status = tessera_session_clear(session, error);
  } else if (status == TESSERA_NOT_FOUND) {
    status = TESSERA_OK; /* the first run */
  }
  if (status == TESSERA_OK) status = tessera_session_append(session, 0, prompt, count, 0, NULL, error);
  if (status == TESSERA_OK) status = tessera_sequence_save_file(session, 0, path, error);
  return status;
}

/* Generates tokens behind `token`, which is not computed yet. */
static tessera_status print_text(tessera_session* session, tessera_sampler* sampler, const tessera_model* model,
                                 int32_t token, long long n_tokens, tessera_error* error) {
  char text[256];
  tessera_status status = TESSERA_OK;
  while (status == TESSERA_OK && n_tokens-- > 0) {
    uint64_t n_vocab = 0;
    const float* logits;
    status = tessera_session_append(session, 0, &token, 1, TESSERA_WANTS_OUTPUT, NULL, error);
    if (status != TESSERA_OK) break;
    logits = tessera_session_output(session, 0, &n_vocab);
    status = tessera_sampler_sample(sampler, logits, n_vocab, &token, error);
    if (status != TESSERA_OK || tessera_token_is_end(model, token)) break;
    status = tessera_sampler_accept(sampler, token, error);
    if (status != TESSERA_OK) break;
    status = tessera_detokenize(model, &token, 1, TESSERA_DETOKENIZE_CONTINUE, text, sizeof text, NULL, error);
    if (status == TESSERA_OK) printf("%s", text);
  }
  putchar('\n');
  return status;
}

int main(int argc, char** argv) {
  tessera_error error = TESSERA_ERROR_INIT;
  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_session* session = NULL;
  tessera_sampler* sampler = NULL;
  tessera_sampler_options sampling;
  static int32_t prompt[MAX_TOKENS];
  uint64_t n_prompt = 0;
  int result = 0;
  if (argc < 5) {
    fprintf(stderr, "usage: state MODEL.gguf STATE PROMPT TOKENS\n");
    return 2;
  }
  tessera_sampler_options_init(&sampling, sizeof sampling);
  sampling.temperature = 0;
  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_session_create(model, NULL, &session, &error) != TESSERA_OK ||
      tessera_sampler_create(model, &sampling, tessera_session_n_ctx(session), &sampler, &error) != TESSERA_OK ||
      tessera_tokenize(model, argv[3], -1, TESSERA_TOKENIZE_SPECIAL, prompt, MAX_TOKENS, &n_prompt, &error) !=
          TESSERA_OK ||
      prepare(session, argv[2], prompt, n_prompt - 1, &error) != TESSERA_OK || printf("%s", argv[3]) < 0 ||
      print_text(session, sampler, model, prompt[n_prompt - 1], atoll(argv[4]), &error) != TESSERA_OK) {
    fprintf(stderr, "error: %s\n", error.text);
    result = 1;
  }
  tessera_sampler_release(sampler);
  tessera_session_release(session);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
