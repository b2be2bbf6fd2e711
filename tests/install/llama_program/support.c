/* What the groups of calls share. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

void show(const char* name, const char* format, ...) {
  va_list values;
  va_start(values, format);
  printf("%s: ", name);
  vprintf(format, values);
  printf("\n");
  va_end(values);
}

void differs(const char* name, const char* reason, const char* format, ...) {
  if (!program.shows_differences) return;
  va_list values;
  va_start(values, format);
  printf("differs: %s: ", name);
  vprintf(format, values);
  printf(" (%s)\n", reason);
  va_end(values);
}

void require(bool holds, const char* text) {
  if (holds) return;
  fprintf(stderr, "FAILED: %s\n", text);
  exit(1);
}

static char* next_text(void) {
  static char texts[8][4096];
  static int at = 0;
  return texts[at++ % 8];
}

const char* quoted(const char* text, int32_t n) {
  char* to = next_text();
  if (text == NULL) return "NULL";
  const size_t length = n < 0 ? strlen(text) : (size_t)n;
  size_t at = 0;
  to[at++] = '"';
  for (size_t i = 0; i < length && at < 4000; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') to[at++] = '\\';
    if (c >= ' ' && c < 0x7f) {
      to[at++] = (char)c;
    } else {
      at += (size_t)sprintf(to + at, "\\x%02x", c);
    }
  }
  to[at++] = '"';
  to[at] = '\0';
  return to;
}

const char* listed(const llama_token* ids, int32_t n) {
  char* to = next_text();
  to[0] = '\0';
  size_t at = 0;
  for (int32_t i = 0; i < n && at < 4000; ++i) at += (size_t)sprintf(to + at, "%s%d", i == 0 ? "" : " ", ids[i]);
  return to;
}

const char* best_of(const float* row, int32_t n) {
  llama_token best[8];
  if (row == NULL) return "no row";
  const int32_t n_tokens = CALL(vocab_n_tokens)(program.vocab);
  for (int32_t i = 0; i < n; ++i) {
    best[i] = -1;
    for (llama_token id = 0; id < n_tokens; ++id) {
      bool is_taken = false;
      for (int32_t j = 0; j < i; ++j) is_taken |= best[j] == id;
      if (!is_taken && (best[i] < 0 || row[id] > row[best[i]])) best[i] = id;
    }
  }
  return listed(best, n);
}

void show_row(const char* name, const float* row) {
  if (row == NULL) {
    show(name, "none");
    return;
  }
  const int32_t n = CALL(vocab_n_tokens)(program.vocab);
  double sum = 0, squares = 0;
  for (int32_t i = 0; i < n; ++i) {
    sum += (double)row[i];
    squares += (double)row[i] * (double)row[i];
  }
  show(name, "best %s, mean %.1f, length %.0f", best_of(row, 4), sum / n, sqrt(squares));
}

const char* path_of(const char* name) {
  char* to = next_text();
  snprintf(to, 4096, "%s/%s", program.folder, name);
  return to;
}

int32_t tokenize(const char* text, llama_token* tokens, int32_t room) {
  return CALL(tokenize)(program.vocab, text, (int32_t)strlen(text), tokens, room, true, false);
}

llama_context* create_context(llama_context_params params) {
  params.n_threads = params.n_threads_batch = 1;
  return CALL(init_from_model)(program.model, params);
}

llama_context_params small_context(uint32_t n_ctx, uint32_t n_seq_max) {
  llama_context_params params = CALL(context_default_params)();
  params.n_ctx = n_ctx;
  params.n_seq_max = n_seq_max;
  params.n_threads = params.n_threads_batch = 1;
  return params;
}

int32_t decode(llama_context* context, const llama_token* tokens, int32_t n) {
  llama_token copy[1024];
  require(n <= 1024, "a batch of this program has room for 1024 tokens");
  memcpy(copy, tokens, (size_t)n * sizeof *tokens);
  return CALL(decode)(context, CALL(batch_get_one)(copy, n));
}

llama_batch one_token(llama_token token, llama_pos position, llama_seq_id sequence) {
  llama_batch batch = CALL(batch_init)(1, 0, 1);
  batch.n_tokens = 1;
  batch.token[0] = token;
  batch.pos[0] = position;
  batch.n_seq_id[0] = 1;
  batch.seq_id[0][0] = sequence;
  batch.logits[0] = 1;
  return batch;
}

int32_t decode_one(llama_context* context, llama_token token, llama_pos position, llama_seq_id sequence) {
  llama_batch batch = one_token(token, position, sequence);
  const int32_t status = CALL(decode)(context, batch);
  CALL(batch_free)(batch);
  return status;
}

void show_ranges(const char* name, int64_t result, llama_context* context, int32_t n) {
  char* to = next_text();
  const llama_memory_t memory = CALL(get_memory)(context);
  size_t at = 0;
  for (int32_t i = 0; i < n; ++i)
    at += (size_t)sprintf(to + at, "%s%d..%d", i == 0 ? "" : ", ", CALL(memory_seq_pos_min)(memory, i),
                          CALL(memory_seq_pos_max)(memory, i));
  show(name, "%lld, %s", (long long)result, to);
}
