/* A program of llama.h that calls every function and prints what must be the same with any libllama. */
#pragma once

#include "llama_abi.h"

struct llama_functions {
#define LLAMA_FUNCTION(result, name, parameters) result(*name) parameters;
#include "llama_functions.def"
#undef LLAMA_FUNCTION
};

enum llama_function {
#define LLAMA_FUNCTION(result, name, parameters) AT_##name,
#include "llama_functions.def"
#undef LLAMA_FUNCTION
  N_FUNCTIONS
};

extern struct llama_functions llama;
void note_call(enum llama_function function);

/* CALL(n_ctx)(context) calls llama_n_ctx(context) and counts it. */
#define CALL(name) (note_call(AT_##name), llama.name)
/* A function that this program does not call with the original, which would end the process. */
#define ONLY_OURS(name) note_call(AT_##name)

struct program {
  const char* model_path;
  const char* folder;     /* for files that the program writes */
  bool is_ours;           /* calls what the original aborts on as well */
  bool shows_differences; /* prints what differs by design */
  llama_model* model;
  const llama_vocab* vocab;
};
extern struct program program;

#if defined(__GNUC__)
#define PRINTF_LIKE(text_at, values_at) __attribute__((format(printf, text_at, values_at)))
#else
#define PRINTF_LIKE(text_at, values_at)
#endif

/* Prints "name: values". */
void show(const char* name, const char* format, ...) PRINTF_LIKE(2, 3);
/* A value that differs by design, printed only if that was asked for. */
void differs(const char* name, const char* reason, const char* format, ...) PRINTF_LIKE(3, 4);
/* Ends the program unless a condition holds that both libraries must meet. */
void require(bool holds, const char* text);

/* A text in quotes, with escapes; valid until the eighth call from here. */
const char* quoted(const char* text, int32_t n);
/* "1 2 3"; valid as above. */
const char* listed(const llama_token* ids, int32_t n);
/* The ids of the n best logits of a row, at most 8. */
const char* best_of(const float* row, int32_t n);
/* Prints a row of logits by its best tokens and by sums, which many rounding errors do not change. */
void show_row(const char* name, const float* row);
/* A path below the program's folder; valid as above. */
const char* path_of(const char* name);

int32_t tokenize(const char* text, llama_token* tokens, int32_t room);
/* A context of one thread, with the sizes of the parameters. */
llama_context* create_context(llama_context_params params);
llama_context_params small_context(uint32_t n_ctx, uint32_t n_seq_max);
/* Decodes tokens at the end of sequence 0. */
int32_t decode(llama_context* context, const llama_token* tokens, int32_t n);
/* A batch of one token, to be freed by llama_batch_free(). */
llama_batch one_token(llama_token token, llama_pos position, llama_seq_id sequence);
/* Decodes one token and frees the batch. */
int32_t decode_one(llama_context* context, llama_token token, llama_pos position, llama_seq_id sequence);
/* Prints a result, and then the positions of the first n sequences: "0..5, -1..-1". */
void show_ranges(const char* name, int64_t result, llama_context* context, int32_t n);

void run_library(void);
void run_templates(void);
void run_model(void);
void run_vocabulary(void);
void run_texts(void);
void run_context(void);
void run_embeddings(void);
void run_memory(void);
void run_states(void);
void run_samplers(void);
void run_chains(void);
void run_grammars(void);
void run_files(void);
void run_adapters(void);
void run_refused(void);
