/* Continues up to 8 texts at the same time. One decode computes the next token of all texts, which takes hardly longer
 * than that of one. The last text begins like the first one: it is a fork, which shares the memory of the first prompt.
 *
 *     cc batch.c $(pkg-config --cflags --libs tessera) -o batch
 *     ./batch MODEL.gguf 32 ", there was a cat" "Once upon a time" "One day" "The dog"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

enum { MAX_TEXTS = 8, MAX_PROMPT = 1024, MAX_LINE = 16384 };

/* Text number i is sequence number i of the session. */
typedef struct text {
  char line[MAX_LINE];
  int32_t next; /* its last token, which is not computed yet */
  int has_ended;
  tessera_sampler* sampler; /* samplers remember their text, so each text has one */
} text;

static text texts[MAX_TEXTS];

/* Lets a text go on with `more`: computes its open token and those of `more`, but for the last one. */
static tessera_status go_on(const tessera_model* model, tessera_session* session, int32_t i, const char* more,
                            uint32_t flags, tessera_error* error) {
  int32_t tokens[MAX_PROMPT];
  uint64_t n = 0, n_more = 0;
  tessera_status status;
  if (texts[i].next >= 0) tokens[n++] = texts[i].next;
  status = tessera_tokenize(model, more, -1, flags, tokens + n, MAX_PROMPT - n, &n_more, error);
  n += n_more;
  if (status != TESSERA_OK || n == 0) return status;
  texts[i].next = tokens[n - 1];
  strncat(texts[i].line, more, MAX_LINE - 1 - strlen(texts[i].line));
  return n == 1 ? status : tessera_session_append(session, i, tokens, n - 1, 0, NULL, error);
}

/* Computes one token of each text that has not ended, and chooses the next one. */
static tessera_status step(const tessera_model* model, tessera_session* session, int n_texts, tessera_error* error) {
  tessera_batch_token batch[MAX_TEXTS];
  uint64_t n = 0, n_vocab = 0;
  int64_t row = 0; /* rows of logits have the order of the batch */
  tessera_status status;
  int i;
  for (i = 0; i < n_texts; ++i) {
    tessera_batch_token one = {0, -1, 0, TESSERA_WANTS_OUTPUT}; /* position -1: behind the last one of the sequence */
    one.token = texts[i].next;
    one.sequence = i;
    if (!texts[i].has_ended) batch[n++] = one;
  }
  status = n == 0 ? TESSERA_OK : tessera_session_decode(session, batch, n, NULL, error);
  for (i = 0; i < n_texts && status == TESSERA_OK; ++i) {
    text* t = &texts[i];
    const size_t length = strlen(t->line);
    const float* logits;
    if (t->has_ended) continue;
    logits = tessera_session_output(session, row++, &n_vocab);
    status = tessera_sampler_sample(t->sampler, logits, n_vocab, &t->next, error);
    if (status == TESSERA_OK) status = tessera_sampler_accept(t->sampler, t->next, error);
    t->has_ended = tessera_token_is_end(model, t->next);
    if (status == TESSERA_OK && !t->has_ended)
      status = tessera_detokenize(model, &t->next, 1, TESSERA_DETOKENIZE_CONTINUE, t->line + length, MAX_LINE - length,
                                  NULL, error);
  }
  return status;
}

static tessera_status run(const tessera_model* model, tessera_session* session, char** prompts, int n_prompts,
                          const char* fork, long n_predict, tessera_error* error) {
  tessera_sampler_options sampling;
  tessera_status status = TESSERA_OK;
  text* copy = &texts[n_prompts];
  int i;
  tessera_sampler_options_init(&sampling, sizeof sampling);
  sampling.temperature = 0;
  for (i = 0; i <= n_prompts && status == TESSERA_OK; ++i) {
    texts[i].next = -1;
    status = tessera_sampler_create(model, &sampling, MAX_PROMPT, &texts[i].sampler, error);
    if (i < n_prompts && status == TESSERA_OK)
      status = go_on(model, session, i, prompts[i], TESSERA_TOKENIZE_SPECIAL, error);
  }
  if (status == TESSERA_OK) status = tessera_sequence_fork(session, 0, n_prompts, 0, -1, error);
  copy->next = texts[0].next;
  strcpy(copy->line, texts[0].line);
  if (status == TESSERA_OK) status = go_on(model, session, n_prompts, fork, 0, error);
  while (n_predict-- > 0 && status == TESSERA_OK) status = step(model, session, n_prompts + 1, error);
  return status;
}

int main(int argc, char** argv) {
  tessera_error error = TESSERA_ERROR_INIT;
  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_session* session = NULL;
  tessera_session_options options;
  const int n_prompts = argc - 4;
  int result = 0, i;
  if (n_prompts < 1 || n_prompts >= MAX_TEXTS) {
    fprintf(stderr, "usage: batch MODEL.gguf TOKENS FORK PROMPT... (1 to %d prompts)\n", MAX_TEXTS - 1);
    return 2;
  }
  tessera_session_options_init(&options, sizeof options);
  options.n_sequences = n_prompts + 1;
  options.n_outputs = n_prompts + 1; /* rows of logits of a decode */
  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_session_create(model, &options, &session, &error) != TESSERA_OK ||
      run(model, session, argv + 4, n_prompts, argv[3], atol(argv[2]), &error) != TESSERA_OK) {
    fprintf(stderr, "error: %s\n", error.text);
    result = 1;
  }
  for (i = 0; i <= n_prompts; ++i) {
    if (result == 0) printf("%s\n", texts[i].line);
    tessera_sampler_release(texts[i].sampler);
  }
  tessera_session_release(session);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
