/* Contexts, batches, logits and embeddings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

enum { ROOM = 256, N_TOLD = 24 };

static void show_sizes(void) {
  struct {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
    bool unified;
  } const cases[] = {{1, 2048, 512, 1, false},  {256, 100, 40, 1, false},   {257, 2048, 512, 1, false},
                     {512, 512, 512, 2, false}, {600, 2048, 512, 2, false}, {600, 2048, 512, 2, true},
                     {0, 2048, 512, 1, false},  {512, 64, 0, 3, false},     {512, 32, 512, 1, false},
                     {1000, 700, 600, 7, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    llama_context_params params = small_context(cases[i].n_ctx, cases[i].n_seq_max);
    params.n_batch = cases[i].n_batch;
    params.n_ubatch = cases[i].n_ubatch;
    params.kv_unified = cases[i].unified;
    llama_context* c = CALL(new_context_with_model)(program.model, params);
    if (c == NULL) {
      show("context", "%zu: none", i);
      continue;
    }
    show("context", "%zu: n_ctx %u, of a sequence %u, n_batch %u, n_ubatch %u, n_seq_max %u, n_rs_seq %u", i,
         CALL(n_ctx)(c), CALL(n_ctx_seq)(c), CALL(n_batch)(c), CALL(n_ubatch)(c), CALL(n_seq_max)(c),
         CALL(n_rs_seq)(c));
    CALL(free)(c);
  }
  llama_context_params params = small_context(256, 0);
  show("no sequences", "%d", create_context(params) == NULL);
  params = small_context(256, 257);
  show("257 sequences", "%d", create_context(params) == NULL);
  CALL(free)(NULL);
  if (!program.is_ours) return;
  params = small_context(256, 1);
  params.n_batch = 0;
  llama_context* c = create_context(params);
  require(c != NULL && CALL(n_batch)(c) == 256, "a batch of no size is as large as the context");
  CALL(free)(c);
}

static void show_settings(void) {
  llama_context* c = create_context(small_context(256, 1));
  show("context", "model %d, memory %d, pooling %d, threads %d %d", CALL(get_model)(c) == program.model,
       CALL(get_memory)(c) != NULL, CALL(pooling_type)(c), CALL(n_threads)(c), CALL(n_threads_batch)(c));
  CALL(set_n_threads)(c, 2, 3);
  show("other threads", "%d %d", CALL(n_threads)(c), CALL(n_threads_batch)(c));
  CALL(set_warmup)(c, false);
  CALL(set_causal_attn)(c, true);
  CALL(synchronize)(c);
  CALL(free)(c);
  show("sequences at once", "%zu", CALL(max_parallel_sequences)());
}

static void show_rows(void) {
  llama_token tokens[ROOM];
  const int32_t n = tokenize("Once upon a time, there was a girl", tokens, ROOM);
  llama_context* c = create_context(small_context(256, 1));
  show("nothing decoded", "logits %d", CALL(get_logits_ith)(c, -1) != NULL);
  show("decode", "%d", decode(c, tokens, n));
  show_row("last row", CALL(get_logits_ith)(c, -1));
  show_row("last row by place", CALL(get_logits_ith)(c, n - 1));
  show_row("first of all", CALL(get_logits)(c));
  show("no rows", "%d %d %d", CALL(get_logits_ith)(c, 0) != NULL, CALL(get_logits_ith)(c, -2) != NULL,
       CALL(get_logits_ith)(c, n) != NULL);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  llama_batch batch = CALL(batch_init)(ROOM, 0, 1);
  batch.n_tokens = n;
  for (int32_t i = 0; i < n; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i == 2 || i == 5;
  }
  show("decode with two rows", "%d", CALL(decode)(c, batch));
  show_row("row 2", CALL(get_logits_ith)(c, 2));
  show_row("row 5", CALL(get_logits_ith)(c, 5));
  show_row("row -2", CALL(get_logits_ith)(c, -2));
  show("no rows", "%d %d", CALL(get_logits_ith)(c, 3) != NULL, CALL(get_logits_ith)(c, -3) != NULL);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  for (int32_t i = 0; i < n; ++i) batch.logits[i] = 0;
  show("decode without rows", "%d", CALL(decode)(c, batch));
  show("no rows", "%d %d", CALL(get_logits_ith)(c, n - 1) != NULL, CALL(get_logits_ith)(c, -1) != NULL);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  batch.logits[n - 1] = 1;
  if (program.is_ours) {
    require(CALL(encode)(c, batch) == 0, "a model without an encoder decodes");
    require(CALL(get_logits_ith)(c, -1) != NULL, "a row of it");
  } else {
    ONLY_OURS(encode);
  }
  CALL(batch_free)(batch);
  CALL(free)(c);
}

static void tell(const char* prompt, llama_context_params params) {
  llama_token tokens[ROOM];
  int32_t n = tokenize(prompt, tokens, ROOM);
  llama_context* c = create_context(params);
  llama_sampler* greedy = CALL(sampler_init_greedy)();
  require(decode(c, tokens, n) == 0, "a prompt can be decoded");
  for (int32_t i = 0; i < N_TOLD; ++i) {
    tokens[n] = CALL(sampler_sample)(greedy, c, -1);
    require(decode(c, tokens + n, 1) == 0, "a token can be decoded");
    ++n;
  }
  char text[1024];
  const int32_t length = CALL(detokenize)(program.vocab, tokens, n, text, sizeof text, true, false);
  show("told", "%s", quoted(text, length));
  CALL(sampler_free)(greedy);
  CALL(free)(c);
}

static void show_stories(void) {
  llama_context_params params = small_context(256, 1);
  tell("Once upon a time", params);
  tell("The dog ran home", params);
  params.n_ubatch = 5;
  tell("Tom and Lily", params);
  params = small_context(512, 2);
  params.kv_unified = true;
  params.type_k = params.type_v = 0;
  tell("One day", params);
  params = small_context(256, 1);
  params.rope_freq_base = 20000;
  tell("Once upon a time", params);
  params.rope_freq_base = 0;
  params.rope_scaling_type = 1;
  params.rope_freq_scale = 0.5f;
  tell("Once upon a time", params);
}

static bool stop(void* user) {
  ++*(int*)user;
  return true;
}

static void show_failures(void) {
  llama_context* c = create_context(small_context(512, 2));
  llama_token token = 5;
  show("no tokens", "%d", CALL(decode)(c, CALL(batch_get_one)(&token, 0)));
  show("bad tokens", "%d %d", decode_one(c, CALL(vocab_n_tokens)(program.vocab), 0, 0), decode_one(c, -1, 0, 0));
  show("bad sequences", "%d %d", decode_one(c, 5, 0, 2), decode_one(c, 5, 0, -1));
  show("a good one", "%d", decode_one(c, 5, 0, 0));
  show("its position again", "%d", decode_one(c, 5, 0, 0));
  show("a position left out", "%d", decode_one(c, 5, 2, 0));
  show("a negative position", "%d", decode_one(c, 5, -1, 0));
  show_ranges("a good one", decode_one(c, 5, 1, 0), c, 2);
  show_ranges("another begins at 3", decode_one(c, 5, 3, 1), c, 2);
  llama_token many[ROOM];
  for (int i = 0; i < ROOM; ++i) many[i] = 300;
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("a full context", decode(c, many, 250), c, 1);
  show_ranges("a full context", decode(c, many, 7), c, 1);
  show_ranges("a full context", decode(c, many, 6), c, 1);
  show_ranges("a full context", decode(c, many, 1), c, 1);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  int n_asked = 0;
  CALL(set_abort_callback)(c, stop, &n_asked);
  const int32_t status = decode(c, many, 20);
  show("stopped", "%d, asked %d", status, n_asked > 0);
  CALL(set_abort_callback)(c, NULL, NULL);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show("not stopped", "%d", decode(c, many, 20));
  CALL(free)(c);
  if (!program.is_ours) return;
  llama_batch batch = CALL(batch_get_one)(NULL, 1);
  require(CALL(decode)(NULL, batch) == -1, "no context is an error");
}

/* A prompt of 3 tokens, then two others. */
static void decode_five(llama_context* c) {
  const llama_token tokens[] = {1, 5, 6};
  for (int32_t n = 3, i = 0; i < 3; ++i, n = 1) {
    require(decode(c, tokens, n) == 0, "tokens can be decoded");
    CALL(synchronize)(c);
  }
}

static void show_times(void) {
  llama_context_params params = small_context(256, 1);
  llama_context* c = create_context(params);
  decode_five(c);
  llama_perf_context_data times = CALL(perf_context)(c);
  show("not counted", "%d of prompts, %d of others, times %d", times.n_p_eval, times.n_eval,
       times.t_p_eval_ms > 0 || times.t_eval_ms > 0);
  CALL(free)(c);
  params.no_perf = false;
  c = create_context(params);
  decode_five(c);
  times = CALL(perf_context)(c);
  show("counted", "%d of prompts, %d of others, times %d", times.n_p_eval, times.n_eval,
       times.t_load_ms >= 0 && times.t_p_eval_ms > 0 && times.t_eval_ms > 0);
  CALL(perf_context_print)(c);
  CALL(perf_context_reset)(c);
  times = CALL(perf_context)(c);
  show("counted after a reset", "%d %d", times.n_p_eval, times.n_eval);
  show("sampled", "%d %d %d", CALL(get_sampled_token_ith)(c, -1), CALL(get_sampled_probs_ith)(c, -1) != NULL,
       CALL(get_sampled_logits_ith)(c, -1) != NULL);
  show("sampled", "%u %u", CALL(get_sampled_probs_count_ith)(c, -1), CALL(get_sampled_candidates_count_ith)(c, -1));
  differs("candidates of no sampler", "samplers do not run within a graph", "%d, %u",
          CALL(get_sampled_candidates_ith)(c, -1) != NULL, CALL(get_sampled_logits_count_ith)(c, -1));
  CALL(free)(c);
}

void run_context(void) {
  show_sizes();
  show_settings();
  show_rows();
  show_stories();
  show_failures();
  show_times();
}

static void show_vector(const char* name, const float* values) {
  if (values == NULL) {
    show(name, "none");
    return;
  }
  double squares = 0, sum = 0;
  const int32_t n = CALL(model_n_embd_out)(program.model);
  for (int32_t i = 0; i < n; ++i) {
    squares += (double)values[i] * (double)values[i];
    sum += (double)values[i];
  }
  show(name, "%.1f %.1f %.1f, length %.1f, sum %.0f", (double)values[0], (double)values[1], (double)values[2],
       sqrt(squares), sum);
}

/* Sequences 0 and 1 of one batch, one after another. They have the same length, because the original pools only the
   rest of a longer one. */
static int32_t decode_two(llama_context* c, const llama_token* tokens, int32_t n) {
  llama_batch batch = CALL(batch_init)(2 * n, 0, 1);
  batch.n_tokens = 2 * n;
  for (int32_t i = 0; i < 2 * n; ++i) {
    batch.token[i] = i < n ? tokens[i] : tokens[2 * n - 1 - i];
    batch.pos[i] = i < n ? i : i - n;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = i < n ? 0 : 1;
    batch.logits[i] = 1;
  }
  const int32_t status = CALL(decode)(c, batch);
  CALL(batch_free)(batch);
  return status;
}

void run_embeddings(void) {
  llama_token tokens[ROOM];
  const int32_t n = tokenize("The big cat sat", tokens, ROOM);
  for (int32_t pooling = 0; pooling <= 3; ++pooling) {
    llama_context_params params = small_context(512, 2);
    params.embeddings = true;
    params.pooling_type = pooling;
    params.kv_unified = false;
    llama_context* c = create_context(params);
    show("embeddings", "pooling %d, decode %d", CALL(pooling_type)(c), decode_two(c, tokens, n));
    show_vector("of sequence 0", CALL(get_embeddings_seq)(c, 0));
    show_vector("of sequence 1", CALL(get_embeddings_seq)(c, 1));
    if (pooling == 0) {
      show_vector("of token 0", CALL(get_embeddings_ith)(c, 0));
      show_vector("of the last token", CALL(get_embeddings_ith)(c, -1));
      show_vector("of all", CALL(get_embeddings)(c));
      show("no token", "%d", CALL(get_embeddings_ith)(c, 2 * n) != NULL);
    }
    CALL(free)(c);
  }
  llama_context* c = create_context(small_context(256, 1));
  show("of a context for logits", "%d", CALL(get_embeddings)(c) != NULL);
  decode(c, tokens, n - 1);
  CALL(set_embeddings)(c, true);
  llama_batch batch = one_token(tokens[n - 1], n - 1, 0);
  show("with embeddings", "%d", CALL(decode)(c, batch));
  CALL(batch_free)(batch);
  show_vector("of the last token", CALL(get_embeddings_ith)(c, -1));
  CALL(set_embeddings)(c, false);
  show_ranges("with logits", decode_one(c, 300, n, 0), c, 1);
  show_row("last row", CALL(get_logits_ith)(c, -1));
  CALL(free)(c);
}
