/* Parts of tessera without a promise: training, learning rates, and the graphs of steps.
 *
 * Any version may change or remove what is declared here, minor ones too. All other rules are those of tessera.h. The
 * library exports these functions under a version node of their own, TESSERA_EXPERIMENTAL.
 */
#ifndef TESSERA_TESSERA_EXPERIMENTAL_H
#define TESSERA_TESSERA_EXPERIMENTAL_H

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Learning rates: of the steps of a training ---- */

enum { TESSERA_SCHEDULE_COSINE = 0, TESSERA_SCHEDULE_LINEAR = 1, TESSERA_SCHEDULE_CONSTANT = 2 };

/* A linear warm-up, then a decay to a floor. */
typedef struct tessera_schedule {
  uint32_t size;
  int32_t shape;    /* TESSERA_SCHEDULE_... */
  float peak;       /* after the warm-up */
  float floor;      /* of the last step, as a share of the peak */
  int64_t n_warmup; /* steps */
  int64_t n_steps;  /* in all */
} tessera_schedule;
/* A. Sets the defaults of `tessera train`: a peak of 0.001, a floor of 0.1, no warm-up, one step. */
TESSERA_API void tessera_schedule_init(tessera_schedule* schedule, size_t size);
/* A. The learning rate of a step, counted from 0. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_schedule_rate(const tessera_schedule* schedule, int64_t step, float* rate,
                                                 tessera_error* error);

/* ---- Training: a model or an adapter learns from texts ---- */

enum { TESSERA_OPTIMIZER_ADAMW = 0, TESSERA_OPTIMIZER_SGD = 1, TESSERA_OPTIMIZER_MUON = 2 };
enum {
  TESSERA_WINDOWS_PACKED = 0, /* documents follow one another */
  TESSERA_WINDOWS_PADDED = 1, /* a window has one document */
  TESSERA_WINDOWS_WHOLE = 2   /* a window has as many whole documents as fit */
};

/* In this struct 0 is a value like others, so call tessera_train_options_init() first. */
typedef struct tessera_train_options {
  uint32_t size;
  uint32_t flags;           /* TESSERA_TRAIN_... */
  const char* const* texts; /* files */
  uint64_t n_texts;
  const char* separator;    /* between documents of a file; NULL: "<|endoftext|>" */
  const char* checkpoint;   /* file; NULL: none */
  int32_t layout;           /* TESSERA_WINDOWS_... */
  int32_t schedule;         /* TESSERA_SCHEDULE_... */
  int32_t optimizer;        /* TESSERA_OPTIMIZER_... */
  int32_t n_threads;        /* 0: those of the runtime */
  int64_t n_ctx;            /* tokens of a window; 0: the context of the model */
  int64_t n_batch;          /* windows of a step; 8 */
  int64_t n_micro;          /* windows that are computed at once; 0: enough for 1024 tokens */
  int64_t n_steps;          /* 0: by n_epochs */
  int64_t n_warmup;         /* steps; -1: 5% */
  float n_epochs;           /* passes over the texts; 1 */
  float learning_rate;      /* after the warm-up; 0.0002 */
  float floor;              /* of the last step, as a share of the learning rate; 0.1 */
  float clip;               /* largest norm of the gradients; 0: any; 1 */
  float weight_decay;       /* of matrices; 0.1 */
  float eval_share;         /* share of the windows for evaluation; 0 */
  int64_t eval_every;       /* steps; 0: at the end */
  int64_t save_every;       /* steps between checkpoints; 0: at the end */
  int64_t n_keep;           /* earlier checkpoints that stay */
  int64_t seed;             /* of initial weights and of the order of windows; 1 */
  int64_t lora_rank;        /* of an adapter that is trained instead of the weights; 0: the weights */
  float lora_alpha;         /* the adapter is scaled by lora_alpha / lora_rank; 16 */
  const char* lora_targets; /* names with commas, such as "attn_q,attn_v"; NULL: all of attention and feed-forward */
} tessera_train_options;
enum {
  TESSERA_TRAIN_RESUME = 1,    /* continue from the checkpoint, to the same bits */
  TESSERA_TRAIN_RECOMPUTE = 2, /* less memory: layers are recomputed for the gradients */
  TESSERA_TRAIN_SPECIAL = 4,   /* control tokens may be written in the texts */
  TESSERA_TRAIN_BF16 = 8       /* matrices in products and in the output are BF16; trained in F32 */
};

enum { TESSERA_TRAIN_STEP = 0, TESSERA_TRAIN_EVALUATED = 1, TESSERA_TRAIN_SAVED = 2 };
typedef struct tessera_train_event {
  int32_t kind;          /* TESSERA_TRAIN_STEP, ... */
  float learning_rate;   /* of a step, as the following */
  int64_t step, n_steps; /* from 1; set for each kind */
  int64_t n_tokens;      /* of the step */
  double loss;           /* also of an evaluation */
  double gradient_norm, seconds;
} tessera_train_event;
/* Called on the thread that trains. Returns 0 to go on. */
typedef int32_t (*tessera_train_function)(void* user, const tessera_train_event* event);

/* A */
TESSERA_API void tessera_train_options_init(tessera_train_options* options, size_t size);
/* A. Trains a model further on texts, as `tessera finetune` does, and writes the model, or with lora_rank an adapter. A
 * stop by `function` or `cancel` takes effect after a step, and writes the checkpoint. Errors: INVALID_ARGUMENT;
 * UNSUPPORTED (quantized weights without lora_rank); LIMIT (the loss diverges; a text shorter than a window); those of
 * the files; OUT_OF_MEMORY; CANCELLED. */
TESSERA_API tessera_status tessera_train(tessera_runtime* runtime, const char* input, const char* output,
                                         const tessera_train_options* options, tessera_train_function function,
                                         void* user, tessera_cancel* cancel, tessera_error* error);

/* A new model. 0: the default of `tessera train`. */
typedef struct tessera_new_model {
  uint32_t size;
  int32_t untied;           /* 1: the output layer has weights of its own */
  const char* architecture; /* NULL: "llama" */
  const char* name;         /* NULL: none */
  int64_t n_layers, n_embd, n_heads, n_heads_kv, n_ff, n_ctx;
} tessera_new_model;
/* A */
TESSERA_API void tessera_new_model_init(tessera_new_model* model, size_t size);
/* A. Trains a new model, with the vocabulary of the GGUF file `vocabulary`. The rest is as in tessera_train(); no
 * adapter can be trained. */
TESSERA_API tessera_status tessera_train_new(tessera_runtime* runtime, const tessera_new_model* model,
                                             const char* vocabulary, const char* output,
                                             const tessera_train_options* options, tessera_train_function function,
                                             void* user, tessera_cancel* cancel, tessera_error* error);

/* ---- Graphs: the steps of a session as they ran ---- */

enum { TESSERA_GRAPH_JSON = 0, TESSERA_GRAPH_DOT = 1, TESSERA_GRAPH_PAGE = 2 };

/* S. Runs a prefill step of n_tokens (0: 512, or as many as fit) and a decode step, three times each, and describes the
 * fastest, as `tessera graph` does: nodes with their devices, memory and times. The session is empty afterwards.
 * `write` gets the text in pieces. Errors: INVALID_ARGUMENT (also while tessera_trace_begin() records); LIMIT (more
 * tokens than a micro-batch or the context has); CANCELLED. */
TESSERA_API tessera_status tessera_session_graph(tessera_session* session, int32_t format, int64_t n_tokens,
                                                 tessera_write_function write, void* user, tessera_cancel* cancel,
                                                 tessera_error* error);

#ifdef __cplusplus
}
#endif

#endif
