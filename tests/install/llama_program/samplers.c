/* Samplers: what each leaves of a fixed array of candidates. */
#include <stdio.h>
#include <string.h>

#include "program.h"

enum { N_CANDIDATES = 10, N_DRAWS = 12, N_LISTED = 12 };

static const float logits[N_CANDIDATES] = {1.0f, 3.5f, -2.0f, 0.25f, 3.0f, 2.75f, -0.5f, 1.5f, 4.0f, -7.0f};

static llama_token_data data[N_CANDIDATES];

static llama_token_data_array candidates(void) {
  for (int32_t i = 0; i < N_CANDIDATES; ++i) {
    data[i].id = i;
    data[i].logit = logits[i];
    data[i].p = 0;
  }
  const llama_token_data_array array = {data, N_CANDIDATES, -1, false};
  return array;
}

static void show_candidates(const char* name, const llama_token_data_array* array) {
  char text[1024];
  size_t at = 0, n = 0;
  text[0] = '\0';
  for (size_t i = 0; i < array->size; ++i) {
    if (array->data[i].logit < -1e30f) continue; /* it may stay or leave */
    at += (size_t)sprintf(text + at, " %d=%.2f", array->data[i].id, (double)array->data[i].logit);
    ++n;
  }
  show(name, "%zu:%s", n, text);
}

/* Frees the sampler. */
static void show_sampler(llama_sampler* sampler) {
  require(sampler != NULL, "a sampler");
  llama_token_data_array array = candidates();
  CALL(sampler_apply)(sampler, &array);
  show_candidates(CALL(sampler_name)(sampler), &array);
  differs(" sorted", "nothing depends on it", "%d", array.sorted);
  if (array.selected >= 0) show(" selected", "%d", array.data[array.selected].id);
  llama_sampler* copy = CALL(sampler_clone)(sampler);
  show(" copy", "%s", CALL(sampler_name)(copy));
  CALL(sampler_reset)(sampler);
  CALL(sampler_free)(copy);
  CALL(sampler_free)(sampler);
}

/* A sampler with random numbers: draws repeat themselves for a seed. Frees both. */
static void show_draws(llama_sampler* first, llama_sampler* second) {
  llama_token drawn[2][N_DRAWS];
  for (int i = 0; i < N_DRAWS; ++i)
    for (int j = 0; j < 2; ++j) {
      llama_token_data_array array = candidates();
      CALL(sampler_apply)(j == 0 ? first : second, &array);
      require(array.selected >= 0 && (size_t)array.selected < array.size, "a token is drawn");
      drawn[j][i] = array.data[array.selected].id;
      CALL(sampler_accept)(j == 0 ? first : second, drawn[j][i]);
    }
  show(CALL(sampler_name)(first), "repeats itself %d", memcmp(drawn[0], drawn[1], sizeof drawn[0]) == 0);
  if (strcmp(CALL(sampler_name)(first), "adaptive-p") != 0) {
    show(" seed", "%u", CALL(sampler_get_seed)(first));
  } else {
    differs(" seed", "the original does not tell it", "%u", CALL(sampler_get_seed)(first));
  }
  differs(CALL(sampler_name)(first), "random numbers", "%s", listed(drawn[0], N_DRAWS));
  CALL(sampler_free)(first);
  CALL(sampler_free)(second);
}

static void show_penalties(void) {
  const llama_token accepted[] = {8, 1, 1, 4, 9, 1};
  const float settings[][3] = {{1.5f, 0, 0}, {1, 0.5f, 0.25f}, {2, 0.5f, 0.25f}, {0.5f, -1, 1}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i)
    for (int32_t last = 3; last <= 64; last += 61) {
      llama_sampler* s =
          CALL(sampler_init_penalties)(N_CANDIDATES, last, settings[i][0], settings[i][1], settings[i][2]);
      for (size_t j = 0; j < sizeof accepted / sizeof *accepted; ++j) CALL(sampler_accept)(s, accepted[j]);
      show_sampler(s);
    }
}

static void show_dry(void) {
  const char* breakers[] = {"\n", ":"};
  const llama_token accepted[] = {1, 4, 7, 8, 1, 4, 7};
  for (int32_t length = 0; length <= 3; ++length) {
    llama_sampler* s = CALL(sampler_init_dry)(program.vocab, 0.8f, 1.75f, length, 64, breakers, 2);
    for (size_t j = 0; j < sizeof accepted / sizeof *accepted; ++j) CALL(sampler_accept)(s, accepted[j]);
    show_sampler(s);
  }
  show_sampler(CALL(sampler_init_dry)(program.vocab, 0, 1.75f, 2, -1, breakers, 2));
}

static void show_random_ones(void) {
  show_draws(CALL(sampler_init_dist)(7), CALL(sampler_init_dist)(7));
  show_draws(CALL(sampler_init_mirostat)(N_CANDIDATES, 7, 5, 0.1f, 100),
             CALL(sampler_init_mirostat)(N_CANDIDATES, 7, 5, 0.1f, 100));
  show_draws(CALL(sampler_init_mirostat_v2)(7, 5, 0.1f), CALL(sampler_init_mirostat_v2)(7, 5, 0.1f));
  show_draws(CALL(sampler_init_adaptive_p)(0.5f, 0.9f, 7), CALL(sampler_init_adaptive_p)(0.5f, 0.9f, 7));
  if (program.is_ours) require(CALL(sampler_get_seed)(NULL) == UINT32_MAX, "no sampler has no seed");
}

void run_samplers(void) {
  const llama_logit_bias biases[] = {{0, 10}, {2, -1.5f}, {8, -20}};
  show_sampler(CALL(sampler_init_greedy)());
  for (int32_t k = -1; k <= 12; k += 4) show_sampler(CALL(sampler_init_top_k)(k));
  for (int i = 0; i <= 10; i += 2)
    for (size_t keep = 0; keep <= 3; keep += 3) show_sampler(CALL(sampler_init_top_p)((float)i / 10, keep));
  for (int i = 0; i <= 10; i += 2)
    for (size_t keep = 0; keep <= 3; keep += 3) show_sampler(CALL(sampler_init_min_p)((float)i / 10, keep));
  for (int i = 1; i <= 10; i += 3)
    for (size_t keep = 0; keep <= 3; keep += 3) show_sampler(CALL(sampler_init_typical)((float)i / 10, keep));
  for (int i = 0; i <= 4; ++i) show_sampler(CALL(sampler_init_temp)((float)i / 2));
  show_sampler(CALL(sampler_init_temp)(-1));
  show_sampler(CALL(sampler_init_temp_ext)(0.5f, 0, 1));
  show_sampler(CALL(sampler_init_temp_ext)(1, 0.5f, 1));
  show_sampler(CALL(sampler_init_temp_ext)(1, 2, 2));
  for (int i = -1; i <= 3; ++i) show_sampler(CALL(sampler_init_top_n_sigma)((float)i / 2));
  show_sampler(CALL(sampler_init_xtc)(1, 0.1f, 1, 7));
  show_sampler(CALL(sampler_init_xtc)(1, 0.2f, 9, 7));
  show_sampler(CALL(sampler_init_xtc)(0, 0.1f, 1, 7));
  show_sampler(CALL(sampler_init_logit_bias)(N_CANDIDATES, 3, biases));
  show_sampler(CALL(sampler_init_logit_bias)(N_CANDIDATES, 0, NULL));
  show_penalties();
  show_dry();
  show_random_ones();
}

static const char* own_name(const llama_sampler* sampler) {
  (void)sampler;
  return "own";
}

static void ban_best(llama_sampler* sampler, llama_token_data_array* array) {
  size_t best = 0;
  for (size_t i = 1; i < array->size; ++i)
    if (array->data[i].logit > array->data[best].logit) best = i;
  array->data[best].logit = -100;
  array->sorted = false;
  ++*(int*)sampler->ctx;
}

static llama_sampler* make_chain(bool no_perf) {
  llama_sampler_chain_params params = CALL(sampler_chain_default_params)();
  params.no_perf = no_perf;
  return CALL(sampler_chain_init)(params);
}

static void show_chain(void) {
  llama_sampler* chain = make_chain(true);
  show("chain", "%s, %d", CALL(sampler_name)(chain), CALL(sampler_chain_n)(chain));
  CALL(sampler_chain_add)(chain, CALL(sampler_init_top_k)(4));
  CALL(sampler_chain_add)(chain, CALL(sampler_init_temp)(0.5f));
  CALL(sampler_chain_add)(chain, CALL(sampler_init_dist)(3));
  CALL(sampler_chain_add)(chain, CALL(sampler_init_greedy)());
  show("chain", "%d, seed %u", CALL(sampler_chain_n)(chain), CALL(sampler_get_seed)(chain));
  for (int32_t i = 0; i < CALL(sampler_chain_n)(chain); ++i)
    show(" sampler", "%d %s", i, CALL(sampler_name)(CALL(sampler_chain_get)(chain, i)));
  show(" itself", "%d, none %d", CALL(sampler_chain_get)(chain, -1) == chain,
       CALL(sampler_chain_get)(chain, 4) != NULL);
  llama_sampler* removed = CALL(sampler_chain_remove)(chain, 2);
  show(" removed", "%s, %d left, none %d", CALL(sampler_name)(removed), CALL(sampler_chain_n)(chain),
       CALL(sampler_chain_remove)(chain, 7) != NULL);
  CALL(sampler_free)(removed);
  show_sampler(chain);
}

static void show_own_sampler(void) {
  static llama_sampler_i functions;
  int n_applied = 0;
  functions.name = own_name;
  functions.apply = ban_best;
  llama_sampler* own = CALL(sampler_init)(&functions, &n_applied);
  show("own sampler", "%s, seed %u", CALL(sampler_name)(own), CALL(sampler_get_seed)(own));
  CALL(sampler_accept)(own, 5);
  CALL(sampler_reset)(own);
  llama_sampler* chain = make_chain(true);
  CALL(sampler_chain_add)(chain, CALL(sampler_init_top_k)(3));
  CALL(sampler_chain_add)(chain, own);
  CALL(sampler_chain_add)(chain, CALL(sampler_init_greedy)());
  llama_token_data_array array = candidates();
  CALL(sampler_apply)(chain, &array);
  show_candidates("chain with it", &array);
  show(" selected", "%d, applied %d", array.selected < 0 ? -1 : array.data[array.selected].id, n_applied);
  CALL(sampler_free)(chain);
}

static void show_copies(void) {
  llama_sampler* from = CALL(sampler_init_penalties)(N_CANDIDATES, 64, 2, 0, 0);
  llama_sampler* to = CALL(sampler_init_penalties)(N_CANDIDATES, 64, 2, 0, 0);
  CALL(sampler_accept)(from, 8);
  CALL(sampler_copy)(from, to);
  show("copied", " ");
  show_sampler(to);
  CALL(sampler_free)(from);
}

static void show_measured_chain(void) {
  llama_token tokens[64];
  const int32_t n = tokenize("Once upon a time", tokens, 64);
  llama_context* c = create_context(small_context(256, 1));
  require(decode(c, tokens, n) == 0, "a prompt can be decoded");
  llama_sampler* chain = make_chain(false);
  CALL(sampler_chain_add)(chain, CALL(sampler_init_top_k)(40));
  CALL(sampler_chain_add)(chain, CALL(sampler_init_greedy)());
  show("sampled", "%d %d", CALL(sampler_sample)(chain, c, -1), CALL(sampler_sample)(chain, c, n - 1));
  const llama_perf_sampler_data times = CALL(perf_sampler)(chain);
  show("counted", "%d, time %d", times.n_sample, times.t_sample_ms >= 0);
  CALL(perf_sampler_print)(chain);
  CALL(perf_sampler_reset)(chain);
  show("counted after a reset", "%d", CALL(perf_sampler)(chain).n_sample);
  CALL(sampler_free)(chain);
  CALL(free)(c);
}

void run_chains(void) {
  show_chain();
  show_own_sampler();
  show_copies();
  show_measured_chain();
  CALL(sampler_free)(NULL);
}

/* A token of one character. */
static llama_token token_of(char wanted) {
  const int32_t n = CALL(vocab_n_tokens)(program.vocab);
  for (llama_token id = 0; id < n; ++id) {
    char piece[8];
    if (CALL(token_to_piece)(program.vocab, id, piece, sizeof piece, 0, false) == 1 && piece[0] == wanted) return id;
  }
  require(false, "the vocabulary has a token for each letter");
  return -1;
}

/* The tokens of the vocabulary that a grammar allows, of which the first N_LISTED are listed; frees the sampler. */
static int32_t count_allowed(llama_sampler* grammar, llama_token* allowed) {
  static llama_token_data all[1 << 16];
  llama_token_data_array array = {all, (size_t)CALL(vocab_n_tokens)(program.vocab), -1, false};
  for (size_t i = 0; i < array.size; ++i) {
    all[i].id = (llama_token)i;
    all[i].logit = all[i].p = 0;
  }
  CALL(sampler_apply)(grammar, &array);
  int32_t n_allowed = 0;
  for (size_t i = 0; i < array.size; ++i)
    if (array.data[i].logit == 0 && n_allowed++ < N_LISTED) allowed[n_allowed - 1] = array.data[i].id;
  CALL(sampler_free)(grammar);
  return n_allowed;
}

/* Frees the sampler. The text has letters only. */
static void show_allowed(const char* name, llama_sampler* grammar, const char* text) {
  llama_token allowed[N_LISTED];
  require(grammar != NULL, "a grammar");
  for (const char* c = text; *c != '\0'; ++c) CALL(sampler_accept)(grammar, token_of(*c));
  const int32_t n = count_allowed(grammar, allowed);
  show(name, "%s allows %d: %s", quoted(text, -1), n, listed(allowed, n < N_LISTED ? n : N_LISTED));
}

void run_grammars(void) {
  const llama_vocab* v = program.vocab;
  llama_token allowed[N_LISTED];
  const char* const answer = "root ::= \"yes\" | \"no\" [a-f]+";
  struct {
    const char* grammar;
    const char* text;
  } const cases[] = {{answer, ""},
                     {answer, "y"},
                     {answer, "ye"},
                     {answer, "yes"},
                     {answer, "no"},
                     {answer, "nof"},
                     {"root ::= (\" \" word)+\nword ::= [a-c]{1,3}", ""},
                     {"root ::= \" \"? \"time\" [x-z !]*", ""},
                     {"root ::= \" \"? \"time\" [x-z !]*", "time"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    show_allowed("grammar", CALL(sampler_init_grammar)(v, cases[i].grammar, "root"), cases[i].text);
  differs("a grammar of any characters but some", "bytes that no UTF-8 text has are never allowed", "%d",
          count_allowed(CALL(sampler_init_grammar)(v, "root ::= [^a-z]*", "root"), allowed));
  show("bad grammar", "%d", CALL(sampler_init_grammar)(v, "root ::= (", "root") != NULL);
  show("no root", "%d", CALL(sampler_init_grammar)(v, "root ::= \"a\"", "other") != NULL);
  const char* words[] = {"time"};
  const char* patterns[] = {"a(y)"};
  const llama_token trigger = token_of('z');
  const char* const lazy = "root ::= \"time\" [a-c] | \"yes\"";
  const char* const texts[] = {"", "once", "atime", "timeb"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    show_allowed("lazy grammar", CALL(sampler_init_grammar_lazy)(v, lazy, "root", words, 1, NULL, 0), texts[i]);
  const char* const others[] = {"by", "bay", "baye", "bz"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    show_allowed(
        "lazy grammar",
        CALL(sampler_init_grammar_lazy_patterns)(v, "root ::= \"yes\" | \"z\" [a-c]", "root", patterns, 1, &trigger, 1),
        others[i]);
  llama_sampler* infill = CALL(sampler_init_infill)(v);
  show("infill", "%s", CALL(sampler_name)(infill));
  CALL(sampler_free)(infill);
}
