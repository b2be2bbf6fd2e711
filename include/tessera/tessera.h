/* tessera as a library: runs large language models from GGUF files.
 *
 * This header is plain C99 and C++11. docs/library.md explains it with examples.
 *
 * Errors. A function that can fail returns a tessera_status, 0 for success. It takes a tessera_error as its last
 * argument, which the caller owns and which may be NULL. A failed function changes nothing, unless its comment says
 * otherwise. Nothing aborts, exits or prints, and no C++ exception leaves a function.
 *
 * Handles. A handle counts its references: _retain adds one, _release gives one back and accepts NULL. The last release
 * frees the object. A session keeps its model, and a model its runtime, so handles can be released in any order.
 *
 * Threads. The comment of each function has a letter:
 *   A   may be called from any thread at any time
 *   S   one thread at a time for one handle; calls with other handles go on
 * After fork() the child must not use handles of its parent. It may create a runtime of its own.
 *
 * Structs. A struct that begins with `size` can grow. Its _init function sets `size` and the defaults. Members that a
 * program does not know, because it was compiled with an older header, have their default.
 *
 * Texts are UTF-8. A length of -1 stands for a text that ends with a NUL.
 *
 * Versions. A minor version adds functions, and members at the end of structs. A major version may break programs.
 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TESSERA_API __attribute__((visibility("default")))
#else
#define TESSERA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Library: its version, and the errors of its functions ---- */

#define TESSERA_VERSION_MAJOR 1
#define TESSERA_VERSION_MINOR 0
#define TESSERA_VERSION_PATCH 0
#define TESSERA_VERSION (TESSERA_VERSION_MAJOR * 1000000 + TESSERA_VERSION_MINOR * 1000 + TESSERA_VERSION_PATCH)

typedef int32_t tessera_status;
enum {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 1, /* a value of the caller is out of its range */
  TESSERA_NOT_FOUND = 2,        /* a file, key or name does not exist */
  TESSERA_IO = 3,               /* the operating system refused a read, write or map */
  TESSERA_FORMAT = 4,           /* the bytes of a file violate its format */
  TESSERA_LIMIT = 5,            /* a documented bound would be exceeded, or a buffer of the caller is too small */
  TESSERA_UNSUPPORTED = 6,      /* well-formed, but not implemented */
  TESSERA_MISMATCH = 7,         /* two things that must match do not */
  TESSERA_OUT_OF_MEMORY = 8,
  TESSERA_CANCELLED = 9, /* stopped by a tessera_cancel or by a callback */
  TESSERA_INTERNAL = 10  /* a bug in tessera */
};

/* The error of a call: a line "WHAT: where, got, limit", ended by a NUL. `text` is empty after a success. */
typedef struct tessera_error {
  uint32_t size;
  tessera_status status;
  char text[504];
} tessera_error;
#define TESSERA_ERROR_INIT          \
  {                                 \
    sizeof(tessera_error), 0, { 0 } \
  }

/* A. The version of the library that runs, in the form of TESSERA_VERSION. */
TESSERA_API uint32_t tessera_version(void);
/* A. The version of the library as text, "1.0.0". Valid forever. */
TESSERA_API const char* tessera_version_text(void);
/* A. The version and commit of the engine, on one line. Valid forever. */
TESSERA_API const char* tessera_build_info(void);
/* A. The name of a status, such as "out of memory"; "unknown status" for other numbers. Valid forever. */
TESSERA_API const char* tessera_status_name(tessera_status status);

/* ---- Runtime: devices, threads and memory that models share ---- */

/* The sessions of a runtime share its threads: their calls compute in turns, in the order in which they ask. Loading,
 * quantizing and the other calls on files start threads of their own, which end with the call. */
typedef struct tessera_runtime tessera_runtime;

enum { TESSERA_LOG_ERROR = 1, TESSERA_LOG_WARNING = 2, TESSERA_LOG_INFO = 3 };

/* A line of the log, without line feed. Called from any thread, one call at a time for a runtime. */
typedef void (*tessera_log_function)(void* user, int32_t level, const char* text);

/* Priorities of threads */
enum {
  TESSERA_PRIORITY_NORMAL = 0,
  TESSERA_PRIORITY_LOW = 1,
  TESSERA_PRIORITY_MEDIUM = 2,
  TESSERA_PRIORITY_HIGH = 3,
  TESSERA_PRIORITY_REALTIME = 4
};

/* Uses of memory */
enum {
  TESSERA_MEMORY_WEIGHTS = 0,
  TESSERA_MEMORY_CACHE = 1,
  TESSERA_MEMORY_COMPUTE = 2,
  TESSERA_MEMORY_OUTPUT = 3,
  TESSERA_MEMORY_OTHER = 4 /* not in plans: training and measurements */
};
/* Returns n_bytes bytes, at least, at a multiple of `alignment`, a power of two; or NULL, if there is no memory. The
 * contents may be anything. use: TESSERA_MEMORY_... Called from any thread. */
typedef void* (*tessera_allocate_function)(void* user, uint64_t n_bytes, uint64_t alignment, int32_t use);
/* Takes back what the other function returned, with the same n_bytes and use. Called from any thread. */
typedef void (*tessera_free_function)(void* user, void* memory, uint64_t n_bytes, int32_t use);

typedef struct tessera_runtime_options {
  uint32_t size;
  int32_t n_threads;        /* of the pool that sessions share, and the caller is one; 0: one for each core */
  const char* isa;          /* instruction set of the CPU, such as "avx2"; NULL: the best one */
  tessera_log_function log; /* NULL: no log */
  void* log_user;
  uint32_t flags;          /* TESSERA_RUNTIME_... */
  int32_t thread_priority; /* TESSERA_PRIORITY_... */
  const char* thread_cpus; /* CPUs that the threads may use, such as "0-3,8"; NULL: those of the caller */
  uint64_t memory_budget;  /* bytes of all models, adapters and sessions, at most; 0: no limit */
  /* Backend plugins, and folders of them, with ':' between; NULL: none. They are loaded when devices are looked for. */
  const char* plugins;
  /* Both or none. They allocate what plans have for the buffers "cpu" and "cpu-packed". Tables and texts, whose size
   * follows from the metadata of models, and output rows stay in malloc(). */
  tessera_allocate_function allocate;
  tessera_free_function free;
  void* memory_user;
} tessera_runtime_options;
enum {
  TESSERA_RUNTIME_PIN_THREADS = 1, /* each thread stays on a CPU of its own */
  /* The environment counts as for the command line: TESSERA_BACKENDS, TESSERA_ISA, TESSERA_BLAS, TESSERA_CUDA_MEMORY,
   * TESSERA_VULKAN_MEMORY and TESSERA_VULKAN_COOPMAT. Plugins beside the program, in ../lib/tessera/backends, too. */
  TESSERA_RUNTIME_USE_ENVIRONMENT = 2
};

/* A. Sets the defaults. `size` is sizeof(tessera_runtime_options). */
TESSERA_API void tessera_runtime_options_init(tessera_runtime_options* options, size_t size);
/* A. Creates a runtime. options: NULL for the defaults. Errors: INVALID_ARGUMENT; UNSUPPORTED (the instruction set);
 * OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_runtime_create(const tessera_runtime_options* options, tessera_runtime** runtime,
                                                  tessera_error* error);
/* A */
TESSERA_API tessera_runtime* tessera_runtime_retain(tessera_runtime* runtime);
/* A */
TESSERA_API void tessera_runtime_release(tessera_runtime* runtime);

enum { TESSERA_DEVICE_CPU = 0, TESSERA_DEVICE_GPU = 1, TESSERA_DEVICE_ACCELERATOR = 2 };

typedef struct tessera_device_info {
  uint32_t size;
  int32_t kind;
  char name[32]; /* "cpu", "cuda:0" */
  char description[160];
  uint64_t total_bytes, free_bytes; /* of its memory; free when the call was made */
} tessera_device_info;

/* A. Looks for the devices of this machine, which may load drivers. Later calls do not look again. Writes a line of
 * text for each plugin or driver that cannot be used, with the reason. *needed gets the bytes of the text with its NUL.
 * Errors: LIMIT (`room` is too small). */
TESSERA_API tessera_status tessera_runtime_find_devices(tessera_runtime* runtime, char* buffer, uint64_t room,
                                                        uint64_t* needed, tessera_error* error);
/* A. The bytes that models, adapters and sessions of this runtime have now, as counted for its memory_budget: all parts
 * of their plans but weights that are used in mapped files; also the files of tessera_model_open_reader(). */
TESSERA_API uint64_t tessera_runtime_memory(tessera_runtime* runtime);
/* A. The number of devices of this machine. Looks for them first, as tessera_runtime_find_devices() does. */
TESSERA_API int64_t tessera_runtime_device_count(tessera_runtime* runtime);
/* A. Describes a device. info->size must be set. Errors: INVALID_ARGUMENT (no such device). */
TESSERA_API tessera_status tessera_runtime_device_info(tessera_runtime* runtime, int64_t index,
                                                       tessera_device_info* info, tessera_error* error);

/* ---- Cancel: a request to stop, from any thread or a signal handler ---- */

typedef struct tessera_cancel tessera_cancel;

/* A. Creates an object that is not set. Errors: OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_cancel_create(tessera_cancel** cancel, tessera_error* error);
/* A, and safe in a signal handler. Asks the calls that were given this object to stop. They return CANCELLED soon, and
 * so do later ones. */
TESSERA_API void tessera_cancel_set(tessera_cancel* cancel);
/* A. 1 after tessera_cancel_set(), else 0. */
TESSERA_API int32_t tessera_cancel_is_set(const tessera_cancel* cancel);
/* S. Makes the object usable again, while no call has it. */
TESSERA_API void tessera_cancel_reset(tessera_cancel* cancel);
/* A */
TESSERA_API tessera_cancel* tessera_cancel_retain(tessera_cancel* cancel);
/* A */
TESSERA_API void tessera_cancel_release(tessera_cancel* cancel);

/* ---- Model: a GGUF file, opened and then loaded ---- */

typedef struct tessera_model tessera_model;

enum {
  /* Weights are used in the mapped file where that is possible. As with every mapped file, the system ends the process
   * with SIGBUS if another process cuts the file while it is used. */
  TESSERA_LOAD_MAP = 0,
  TESSERA_LOAD_READ = 1 /* the file is read, and not needed after tessera_model_load() */
};

/* The loaded share of the bytes, 0 to 1. Called on the thread that loads. Returns 0 to go on. */
typedef int32_t (*tessera_progress_function)(void* user, float share);

typedef struct tessera_model_options {
  uint32_t size;
  int32_t load_mode;    /* TESSERA_LOAD_... */
  const char* devices;  /* names with commas; NULL: the CPU */
  int32_t n_gpu_layers; /* layers on the devices, counted from the last; 0: all */
  uint32_t flags;       /* TESSERA_MODEL_... */
} tessera_model_options;
enum {
  TESSERA_MODEL_LOCK_MEMORY = 1,   /* keep the weights from being swapped out */
  TESSERA_MODEL_CHECK_TENSORS = 2, /* refuse weights that are not finite */
  TESSERA_MODEL_NO_PACKING = 4     /* use matrices as the file has them: less memory, slower */
};

/* A. `size` is sizeof(tessera_model_options). */
TESSERA_API void tessera_model_options_init(tessera_model_options* options, size_t size);
/* A. Reads the metadata of a GGUF file, or of the first of its parts, and plans its memory. Loads no weights.
 * options: NULL for the defaults. Errors: those of the file; NOT_FOUND (a device); INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_model_open(tessera_runtime* runtime, const char* path,
                                              const tessera_model_options* options, tessera_model** model,
                                              tessera_error* error);
/* A file that a program reads itself, such as one in an archive or in memory. The callbacks are called on the thread of
 * the call that has the reader. */
typedef struct tessera_reader {
  uint32_t size;
  void* user;
  int64_t (*file_size)(void* user); /* in bytes; a negative number: it cannot be told */
  /* Writes n_bytes from `offset` on to `buffer`; they are within the file. Returns 0, or another number if it fails. */
  int32_t (*read)(void* user, uint64_t offset, void* buffer, uint64_t n_bytes);
} tessera_reader;
/* A. Sets all members to 0. `size` is sizeof(tessera_reader). The program then sets the members. */
TESSERA_API void tessera_reader_init(tessera_reader* reader, size_t size);
/* A. Opens a model of one file, which is read as a whole at once, in pieces and in order. The model keeps the bytes in
 * memory of its own until its last release. With TESSERA_LOAD_MAP weights are used there where that is possible, and
 * only the others take memory again. With TESSERA_LOAD_READ all of them do. The bytes count for the runtime's budget
 * from now on. The plan does not have them, except weights that are used in place ("cpu-mapped"). name: for messages.
 * Errors: those of tessera_model_open(); IO (the reader failed); OUT_OF_MEMORY (also beyond the budget). */
TESSERA_API tessera_status tessera_model_open_reader(tessera_runtime* runtime, const tessera_reader* reader,
                                                     const char* name, const tessera_model_options* options,
                                                     tessera_model** model, tessera_error* error);
/* S. Allocates the planned memory and fills it, with threads that end with the call. A second call does nothing.
 * progress and cancel may be NULL. Errors: OUT_OF_MEMORY (also beyond the runtime's budget), IO, FORMAT (with
 * TESSERA_MODEL_CHECK_TENSORS), CANCELLED. */
TESSERA_API tessera_status tessera_model_load(tessera_model* model, tessera_progress_function progress, void* user,
                                              tessera_cancel* cancel, tessera_error* error);
/* A. 1 after tessera_model_load(), else 0. */
TESSERA_API int32_t tessera_model_is_loaded(const tessera_model* model);
/* A */
TESSERA_API tessera_model* tessera_model_retain(tessera_model* model);
/* A */
TESSERA_API void tessera_model_release(tessera_model* model);

/* Texts are valid as long as the model. */
typedef struct tessera_model_info {
  uint32_t size;
  uint32_t flags;           /* TESSERA_MODEL_HAS_... */
  const char* architecture; /* general.architecture */
  const char* name;         /* general.name, "" if there is none */
  int64_t n_vocab, n_ctx_train, n_embd, n_layers;
  uint64_t n_parameters;
  uint64_t n_bytes; /* of the weights in the file */
} tessera_model_info;
enum {
  TESSERA_MODEL_HAS_ENCODER = 1,  /* an encoder beside the decoder: see tessera_session_encode() */
  TESSERA_MODEL_IS_CAUSAL = 2,    /* a token depends on earlier ones only: text can be generated */
  TESSERA_MODEL_IS_RECURRENT = 4, /* a sequence returns to checkpoints only */
  TESSERA_MODEL_HAS_TOKENIZER = 8,
  TESSERA_MODEL_HAS_RANK_HEAD = 16 /* see tessera_rank() */
};
/* A. Describes a model. info->size must be set. */
TESSERA_API tessera_status tessera_model_info_get(const tessera_model* model, tessera_model_info* info,
                                                  tessera_error* error);

/* ---- Contents of a model: its metadata and the list of its tensors; it need not be loaded ---- */

/* A. The number of metadata keys, which are numbered from 0 in the order of the file; 0 for NULL. */
TESSERA_API int64_t tessera_model_key_count(const tessera_model* model);
/* A. Writes the name of a key, ended by a NUL. *needed gets its bytes with the NUL. Errors: INVALID_ARGUMENT (no such
 * key); LIMIT (`room` is too small). */
TESSERA_API tessera_status tessera_model_key_at(const tessera_model* model, int64_t index, char* buffer, uint64_t room,
                                                uint64_t* needed, tessera_error* error);
/* A. Writes the value of a key as JSON, ended by a NUL: a number, true or false, a string, or an array with all of its
 * elements. Numbers that are not finite are null, and bytes that are not UTF-8 become U+FFFD. Errors: NOT_FOUND (the
 * key is missing); LIMIT (`room` is too small). */
TESSERA_API tessera_status tessera_model_key(const tessera_model* model, const char* key, char* buffer, uint64_t room,
                                             uint64_t* needed, tessera_error* error);

/* The texts are valid as long as the model. */
typedef struct tessera_tensor_info {
  uint32_t size;
  int32_t rank;      /* number of extents, as the file states it */
  int64_t extent[4]; /* innermost first: a matrix that maps n values to m has n, m; unused ones are 1 */
  uint64_t n_bytes;
  uint64_t offset;  /* of its bytes, from the start of the file */
  const char* type; /* format of the elements, such as "f32" or "q4_K" */
  const char* file; /* path of the file, or of the part, that has the tensor */
  int32_t file_index;
  char name[64];
} tessera_tensor_info;
/* A. The number of tensors, which are numbered from 0 in the order of the files; 0 for NULL. */
TESSERA_API int64_t tessera_model_tensor_count(const tessera_model* model);
/* A. Describes a tensor. info->size must be set. Errors: INVALID_ARGUMENT (no such tensor). */
TESSERA_API tessera_status tessera_model_tensor_info(const tessera_model* model, int64_t index,
                                                     tessera_tensor_info* info, tessera_error* error);
/* S. Something that the model lacks or a request that could not be met, as a line of text: a tokenizer that is not
 * known, weights that cannot be locked. They are numbered from 0. NULL: there are no more. Valid until
 * tessera_model_load(), which may add some. */
TESSERA_API const char* tessera_model_warning(const tessera_model* model, int64_t index);
/* A. A number that tells models apart: a hash of metadata, list of tensors and samples of the weights. A saved state
 * belongs to a model with the same number. 0 for NULL. */
TESSERA_API uint64_t tessera_model_fingerprint(const tessera_model* model);

/* ---- Tokenizer: texts to tokens and back, for a model that need not be loaded ---- */

enum {
  TESSERA_TOKENIZE_SPECIAL = 1,      /* add the tokens that begin and end a text of this model, such as BOS */
  TESSERA_TOKENIZE_PARSE_SPECIAL = 2 /* control tokens may be written in the text: not for text of strangers */
};
/* A. Writes the tokens of a text, which may have any bytes. *needed gets their number. Errors: LIMIT (`room` tokens are
 * too few: only *needed is set; or the text is too long); NOT_FOUND (the vocabulary cannot spell the text);
 * UNSUPPORTED (the model has no tokenizer). */
TESSERA_API tessera_status tessera_tokenize(const tessera_model* model, const char* text, int64_t length,
                                            uint32_t flags, int32_t* tokens, uint64_t room, uint64_t* needed,
                                            tessera_error* error);

enum {
  TESSERA_DETOKENIZE_SPECIAL = 1, /* write control tokens as their text, else as nothing */
  TESSERA_DETOKENIZE_CONTINUE = 2 /* the tokens continue a text: a space in front stays */
};
/* A. Writes the text of tokens, ended by a NUL. The bytes are those of the tokens, which may be no valid UTF-8.
 * *needed gets the number of bytes with the NUL. Errors: LIMIT (`room` is too small); INVALID_ARGUMENT (a number that
 * is no token); UNSUPPORTED. */
TESSERA_API tessera_status tessera_detokenize(const tessera_model* model, const int32_t* tokens, uint64_t count,
                                              uint32_t flags, char* buffer, uint64_t room, uint64_t* needed,
                                              tessera_error* error);

enum {
  TESSERA_TOKEN_BOS = 0,
  TESSERA_TOKEN_EOS = 1,
  TESSERA_TOKEN_UNKNOWN = 2,
  TESSERA_TOKEN_SEPARATOR = 3,
  TESSERA_TOKEN_PADDING = 4,
  TESSERA_TOKEN_CLS = 5,
  TESSERA_TOKEN_MASK = 6,
  TESSERA_TOKEN_EOT = 7,
  TESSERA_TOKEN_EOM = 8,
  TESSERA_TOKEN_FIM_PREFIX = 9,
  TESSERA_TOKEN_FIM_SUFFIX = 10,
  TESSERA_TOKEN_FIM_MIDDLE = 11,
  TESSERA_TOKEN_FIM_PAD = 12,
  TESSERA_TOKEN_FIM_REPO = 13,
  TESSERA_TOKEN_FIM_SEPARATOR = 14
};
/* A. The token of a role, or -1 if the model has none. */
TESSERA_API int32_t tessera_token_special(const tessera_model* model, int32_t role);
/* A. 1 for a token that ends a text of this model, else 0. */
TESSERA_API int32_t tessera_token_is_end(const tessera_model* model, int32_t token);

enum {
  TESSERA_TOKEN_KIND_NORMAL = 1,
  TESSERA_TOKEN_KIND_UNKNOWN = 2,
  TESSERA_TOKEN_KIND_CONTROL = 3,
  TESSERA_TOKEN_KIND_USER_DEFINED = 4,
  TESSERA_TOKEN_KIND_UNUSED = 5,
  TESSERA_TOKEN_KIND_BYTE = 6
};
/* Does not grow. `text` is as the vocabulary stores it, without a NUL, and valid as long as the model. */
typedef struct tessera_token_info {
  const char* text;
  uint64_t n_bytes;
  float score;
  int32_t kind;
} tessera_token_info;
/* A. Describes a token. Errors: INVALID_ARGUMENT (no token), UNSUPPORTED. */
TESSERA_API tessera_status tessera_token_info_get(const tessera_model* model, int32_t token, tessera_token_info* info,
                                                  tessera_error* error);

/* ---- Adapters: changes of a model that each sequence of a session may use ---- */

typedef struct tessera_adapter tessera_adapter;

/* S, for the model, which need not be loaded. Reads the metadata of a LoRA adapter (GGUF) and plans its memory. The
 * adapter keeps the model. Errors: those of the file; MISMATCH (made for another model); UNSUPPORTED. */
TESSERA_API tessera_status tessera_adapter_open_lora(tessera_model* model, const char* path, tessera_adapter** adapter,
                                                     tessera_error* error);
/* S, for the model. The same for a control vector, whose directions are added to the outputs of its layers from
 * first_layer to last_layer, counted from 0; -1: to the last one. Errors: also INVALID_ARGUMENT (it has no direction
 * for these layers). */
TESSERA_API tessera_status tessera_adapter_open_control_vector(tessera_model* model, const char* path,
                                                               int64_t first_layer, int64_t last_layer,
                                                               tessera_adapter** adapter, tessera_error* error);
/* S. Allocates the planned memory and fills it. The model must be loaded. A second call does nothing. Errors:
 * INVALID_ARGUMENT; OUT_OF_MEMORY (also beyond the runtime's budget); IO; FORMAT (a value is not finite). */
TESSERA_API tessera_status tessera_adapter_load(tessera_adapter* adapter, tessera_error* error);
/* A. Adds a reference and returns the adapter. NULL is allowed. */
TESSERA_API tessera_adapter* tessera_adapter_retain(tessera_adapter* adapter);
/* A. Gives a reference back. NULL is allowed. */
TESSERA_API void tessera_adapter_release(tessera_adapter* adapter);

/* ---- Session: the memory of some sequences of a model, and their computation ---- */

typedef struct tessera_session tessera_session;

/* Types of the KV cache */
enum {
  TESSERA_CACHE_DEFAULT = 0, /* F16 */
  TESSERA_CACHE_F32 = 1,
  TESSERA_CACHE_F16 = 2,
  TESSERA_CACHE_BF16 = 3,
  TESSERA_CACHE_Q8_0 = 4,
  TESSERA_CACHE_Q5_1 = 5,
  TESSERA_CACHE_Q5_0 = 6,
  TESSERA_CACHE_Q4_1 = 7,
  TESSERA_CACHE_Q4_0 = 8,
  TESSERA_CACHE_IQ4_NL = 9
};

typedef struct tessera_session_options {
  uint32_t size;
  uint32_t flags;         /* TESSERA_SESSION_... */
  int64_t n_ctx;          /* tokens over all sequences; 0: the context that the model was trained with */
  int64_t n_ubatch;       /* tokens that are computed at once, at most; 0: 512 */
  int64_t n_outputs;      /* rows of logits or embeddings of a decode, at most; 0: 1 */
  int32_t n_sequences;    /* sequences are numbered from 0; 0: 1 */
  int32_t n_threads;      /* at most those of the runtime; 0: as many */
  int32_t type_k, type_v; /* TESSERA_CACHE_... */
  int32_t n_checkpoints;  /* of recurrent states */
  /* Adapters that the sequences may use, at most 64, which the session keeps. They must be of its model and loaded. */
  tessera_adapter* const* adapters;
  const float* adapter_scales; /* with which each sequence begins; NULL: 1 for each adapter */
  uint64_t n_adapters;
} tessera_session_options;
enum { TESSERA_SESSION_EMBEDDINGS = 1 /* rows are embeddings instead of logits */ };

/* A */
TESSERA_API void tessera_session_options_init(tessera_session_options* options, size_t size);

/* A part of a plan. Does not grow. */
typedef struct tessera_memory_part {
  char device[32]; /* "cpu" */
  char buffer[32]; /* "cpu-packed"; "cpu-mapped" for weights that are used in the mapped file */
  int32_t kind;    /* TESSERA_MEMORY_... */
  int32_t reserved;
  uint64_t n_bytes;
} tessera_memory_part;
/* S, for the model. The memory that tessera_model_load() will take. Allocates none of it. *needed gets the number of
 * parts. Errors: LIMIT (`room` parts are too few). */
TESSERA_API tessera_status tessera_model_plan(tessera_model* model, tessera_memory_part* parts, uint64_t room,
                                              uint64_t* needed, tessera_error* error);
/* S, for the model. The memory that a session will take, with that of the model. Allocates none of it. *needed gets the
 * number of parts. Errors: INVALID_ARGUMENT, UNSUPPORTED; LIMIT (`room` parts are too few). */
TESSERA_API tessera_status tessera_session_plan(tessera_model* model, const tessera_session_options* options,
                                                tessera_memory_part* parts, uint64_t room, uint64_t* needed,
                                                tessera_error* error);
typedef struct tessera_fit_options {
  uint32_t size;
  uint32_t flags;        /* TESSERA_FIT_... */
  uint64_t margin_bytes; /* left free on each device, on the CPU at most 1/16 of its free memory; 0: 1 GiB */
  int64_t least_ctx;     /* the context shrinks to this at most, if the session's n_ctx is 0; 0: 4096 */
} tessera_fit_options;
enum { TESSERA_FIT_UBATCH = 1 /* n_ubatch may shrink, too */ };

/* A */
TESSERA_API void tessera_fit_options_init(tessera_fit_options* options, size_t size);
/* S, for the model, which must not be loaded yet. Moves layers from devices to the CPU, and sets n_ctx, n_ubatch,
 * type_k and type_v of `session`, so that model and session fit in the free memory of the devices, and in the runtime's
 * budget. An n_ctx that is not 0 stays. Only a budget leads to a smaller n_ubatch without TESSERA_FIT_UBATCH, to a
 * cache of Q8_0, or to a context below least_ctx, tried in this order. The log has a line on settings that differ from
 * those that were asked for, with TESSERA_LOG_INFO. options: NULL for the defaults. Errors: OUT_OF_MEMORY (no plan
 * fits: both numbers are in the text); those of tessera_session_plan(). */
TESSERA_API tessera_status tessera_model_fit(tessera_model* model, tessera_session_options* session,
                                             const tessera_fit_options* options, tessera_error* error);
/* S, for the model, which must be loaded. Creates a session. Errors: as tessera_session_plan(); OUT_OF_MEMORY (also
 * beyond the runtime's budget). */
TESSERA_API tessera_status tessera_session_create(tessera_model* model, const tessera_session_options* options,
                                                  tessera_session** session, tessera_error* error);
/* A */
TESSERA_API tessera_session* tessera_session_retain(tessera_session* session);
/* A */
TESSERA_API void tessera_session_release(tessera_session* session);
typedef struct tessera_session_info {
  uint32_t size;
  uint32_t flags;    /* TESSERA_SESSION_... */
  int64_t n_ctx;     /* tokens over all sequences */
  int64_t n_ubatch;  /* tokens that are computed at once, at most */
  int64_t n_outputs; /* rows of a decode, at most */
  int64_t n_row;     /* values of a row */
  int32_t n_sequences;
  int32_t n_threads;
} tessera_session_info;
/* A. The settings of a session, defaults included. info->size must be set. */
TESSERA_API tessera_status tessera_session_info_get(const tessera_session* session, tessera_session_info* info,
                                                    tessera_error* error);
/* A. The context in tokens, over all sequences. */
TESSERA_API int64_t tessera_session_n_ctx(const tessera_session* session);
/* S. The memory that the session has, in the form of tessera_session_plan(), which it equals. */
TESSERA_API tessera_status tessera_session_memory(tessera_session* session, tessera_memory_part* parts, uint64_t room,
                                                  uint64_t* needed, tessera_error* error);

/* Does not grow. */
typedef struct tessera_batch_token {
  int32_t token;
  int32_t position; /* in the sequence; -1: behind its last token */
  int32_t sequence;
  uint32_t flags; /* TESSERA_WANTS_OUTPUT */
} tessera_batch_token;
enum { TESSERA_WANTS_OUTPUT = 1 /* a row of logits or an embedding after this token */ };

/* S. Computes a batch and stores its tokens. Any split of tokens into batches gives the same bits. cancel: NULL or an
 * object. Errors: INVALID_ARGUMENT (a token, position or sequence out of range; too many outputs); LIMIT (the cache is
 * full); CANCELLED. After an error the session is as before. */
TESSERA_API tessera_status tessera_session_decode(tessera_session* session, const tessera_batch_token* tokens,
                                                  uint64_t count, tessera_cancel* cancel, tessera_error* error);
/* S. Decodes tokens behind the last one of a sequence. flags: TESSERA_WANTS_OUTPUT, after the last token. Errors: as
 * tessera_session_decode(). */
TESSERA_API tessera_status tessera_session_append(tessera_session* session, int32_t sequence, const int32_t* tokens,
                                                  uint64_t count, uint32_t flags, tessera_cancel* cancel,
                                                  tessera_error* error);
/* S. Sets the scales of adapters for a sequence, from the next decode on. Adapters of the session that are not listed
 * get 0, so none are used with a count of 0. scales NULL: 1 for each. Tokens that the sequence has keep the old
 * adapters; remove them if that is not wanted. Errors: INVALID_ARGUMENT (an adapter that the session does not have; a
 * scale that is not finite); then nothing changes. */
TESSERA_API tessera_status tessera_session_set_adapters(tessera_session* session, int32_t sequence,
                                                        tessera_adapter* const* adapters, const float* scales,
                                                        uint64_t count, tessera_error* error);
/* S. Computes the prompt of a sequence, for a model with an encoder. Errors: as tessera_session_decode(); UNSUPPORTED.
 */
TESSERA_API tessera_status tessera_session_encode(tessera_session* session, int32_t sequence, const int32_t* tokens,
                                                  uint64_t count, tessera_cancel* cancel, tessera_error* error);
/* S. The number of rows of the last decode. */
TESSERA_API int64_t tessera_session_output_count(tessera_session* session);
/* S. Row number `index` of the last decode, in the order of its tokens: the logits of all tokens, or an embedding.
 * *count gets its length. Valid until the next decode. NULL if there is no such row; count may be NULL. */
TESSERA_API const float* tessera_session_output(tessera_session* session, int64_t index, uint64_t* count);

/* S. The first and the last position that a sequence holds; -1 for both if it is empty. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sequence_range(tessera_session* session, int32_t sequence, int32_t* first,
                                                  int32_t* last, tessera_error* error);
/* S. Removes the positions [begin, end) of a sequence; end -1: all that follow. Errors: INVALID_ARGUMENT; UNSUPPORTED
 * (a recurrent state cannot go back that far). */
TESSERA_API tessera_status tessera_sequence_remove(tessera_session* session, int32_t sequence, int32_t begin,
                                                   int32_t end, tessera_error* error);
/* S. Removes all other sequences. */
TESSERA_API tessera_status tessera_sequence_keep(tessera_session* session, int32_t sequence, tessera_error* error);
/* S. Lets sequence `to`, which must be empty, have the positions [begin, end) of `from`; end -1: all that follow. Both
 * share memory until one of them changes. */
TESSERA_API tessera_status tessera_sequence_fork(tessera_session* session, int32_t from, int32_t to, int32_t begin,
                                                 int32_t end, tessera_error* error);
/* S. Moves the positions [begin, end) by `delta`. Errors: also UNSUPPORTED (the tokens of this model cannot move). */
TESSERA_API tessera_status tessera_sequence_shift(tessera_session* session, int32_t sequence, int32_t begin,
                                                  int32_t end, int32_t delta, tessera_error* error);
/* S. Removes all sequences. */
TESSERA_API tessera_status tessera_session_clear(tessera_session* session, tessera_error* error);

/* S. Writes the state of a sequence, for tessera_sequence_restore() of a session of the same model and types. *needed
 * gets the bytes. Errors: LIMIT (`room` is too small); INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sequence_save(tessera_session* session, int32_t sequence, void* buffer,
                                                 uint64_t room, uint64_t* needed, tessera_error* error);
/* S. Replaces a sequence by a saved state. Errors: FORMAT, MISMATCH (of another model or type), LIMIT. After an error
 * the sequence is as before. */
TESSERA_API tessera_status tessera_sequence_restore(tessera_session* session, int32_t sequence, const void* state,
                                                    uint64_t n_bytes, tessera_error* error);

/* S. The bytes that tessera_sequence_save() would write now. Copies nothing. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sequence_state_bytes(tessera_session* session, int32_t sequence, uint64_t* n_bytes,
                                                        tessera_error* error);
/* S. Writes the bytes of tessera_sequence_save() to a file, in place of an older one. The file appears under its path
 * when it is complete. Errors: INVALID_ARGUMENT, IO. */
TESSERA_API tessera_status tessera_sequence_save_file(tessera_session* session, int32_t sequence, const char* path,
                                                      tessera_error* error);
/* S. Replaces a sequence by the state in a file, which may be of strangers. Errors: those of
 * tessera_sequence_restore(); NOT_FOUND, IO; LIMIT (the file is larger than any state of this session). After an error
 * the sequence is as before. */
TESSERA_API tessera_status tessera_sequence_restore_file(tessera_session* session, int32_t sequence, const char* path,
                                                         tessera_error* error);

/* A. Returns 1 if tessera_sequence_shift() can move tokens of this session's model, else 0: they are stored with
 * learned positions. A recurrent state moves only as a whole. */
TESSERA_API int32_t tessera_sequence_can_shift(const tessera_session* session);
/* S. Finds how far a sequence can go back. *position gets the lowest position from which the tokens of a sequence can
 * be removed and decoded anew. It is 0, unless layers see only the last tokens or have a recurrent state, which returns
 * to checkpoints only. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sequence_rollback_limit(tessera_session* session, int32_t sequence,
                                                           int32_t* position, tessera_error* error);
/* S. Keeps the recurrent state of a sequence as it is now, so that tessera_sequence_remove() can return to it by
 * removing all positions behind. Does nothing for models without such states. Errors: INVALID_ARGUMENT (also an empty
 * sequence); LIMIT (there are n_checkpoints in the session already). */
TESSERA_API tessera_status tessera_sequence_checkpoint(tessera_session* session, int32_t sequence,
                                                       tessera_error* error);
/* S. Forgets all checkpoints of a sequence. */
TESSERA_API tessera_status tessera_sequence_drop_checkpoints(tessera_session* session, int32_t sequence,
                                                             tessera_error* error);

/* ---- Embeddings: vectors of texts, and scores of documents for a query ---- */

enum {
  TESSERA_POOLING_DEFAULT = 0, /* of the model's file, else the mean */
  TESSERA_POOLING_NONE = 1,    /* a vector for each token, one after another */
  TESSERA_POOLING_MEAN = 2,
  TESSERA_POOLING_FIRST = 3, /* that of the first token, often named CLS */
  TESSERA_POOLING_LAST = 4
};
enum {
  TESSERA_NORMALIZE_EUCLIDEAN = 0, /* to length 1, so that the product of two vectors is their cosine similarity */
  TESSERA_NORMALIZE_NONE = 1,
  TESSERA_NORMALIZE_TAXICAB = 2, /* to a sum of magnitudes of 1 */
  TESSERA_NORMALIZE_INT16 = 3    /* to a largest magnitude of 32760 */
};
typedef struct tessera_embed_options {
  uint32_t size;
  int32_t pooling;       /* TESSERA_POOLING_... */
  int32_t normalization; /* TESSERA_NORMALIZE_... */
  int32_t n_threads;     /* at most those of the runtime; 0: as many */
  int64_t n_ctx;         /* tokens of a text at most; 0: the context that the model was trained with */
  int64_t n_ubatch;      /* tokens that are computed at once; 0: 512. Models that are not causal compute whole texts */
} tessera_embed_options;
/* A. Sets the defaults. `size` is sizeof(tessera_embed_options). */
TESSERA_API void tessera_embed_options_init(tessera_embed_options* options, size_t size);

/* The vector or the scores of text number `index`. Called in order, on the thread of the call. `values` are valid until
 * it returns. Returns 0 to go on. */
typedef int32_t (*tessera_vector_function)(void* user, uint64_t index, const float* values, uint64_t count);

/* S, for the model, which must be loaded. Computes the vector of each text. lengths: NULL if all texts end with a NUL.
 * Takes the memory of a session while it runs, for the size of these texts. A vector does not depend on the other
 * texts. options and cancel may be NULL. Errors: INVALID_ARGUMENT (also a text without tokens); LIMIT (a text is too
 * long); UNSUPPORTED (the model has no tokenizer); OUT_OF_MEMORY; CANCELLED, also if `visit` does not return 0. */
TESSERA_API tessera_status tessera_embed(tessera_model* model, const char* const* texts, const int64_t* lengths,
                                         uint64_t count, const tessera_embed_options* options,
                                         tessera_vector_function visit, void* user, tessera_cancel* cancel,
                                         tessera_error* error);
/* S, for the model, which must be loaded. Computes the scores of documents for a query by the rank head of the model:
 * most have one score, the higher the more relevant. Otherwise as tessera_embed(); pooling and normalization of the
 * options are not used. Errors: also UNSUPPORTED (the model has no rank head). */
TESSERA_API tessera_status tessera_rank(tessera_model* model, const char* query, int64_t query_length,
                                        const char* const* documents, const int64_t* lengths, uint64_t count,
                                        const tessera_embed_options* options, tessera_vector_function visit, void* user,
                                        tessera_cancel* cancel, tessera_error* error);
/* S. The scores of the model's rank head for a vector, pooled from rows of a session with TESSERA_SESSION_EMBEDDINGS.
 * *needed gets their number. Errors: MISMATCH (`count` is not the width of the model); LIMIT (`room` is too small);
 * UNSUPPORTED (no rank head, or a session for logits); CANCELLED. */
TESSERA_API tessera_status tessera_session_rank(tessera_session* session, const float* embedding, uint64_t count,
                                                float* scores, uint64_t room, uint64_t* needed, tessera_cancel* cancel,
                                                tessera_error* error);

/* ---- Sampler: chooses the next token of a sequence ---- */

typedef struct tessera_sampler tessera_sampler;

/* In this struct 0 is a value like others, so call tessera_sampler_options_init() first. Later members will be off if
 * they are 0. */
typedef struct tessera_sampler_options {
  uint32_t size;
  int32_t n_prev;    /* tokens of the text that are remembered at least; 64 */
  int64_t seed;      /* -1: a random one */
  const char* order; /* names of the steps with semicolons, such as "top_k;temperature"; NULL: the usual order */
  int32_t min_keep;  /* candidates that the steps leave at least; 0 */
  float temperature; /* 0: always the most probable token; 0.8 */
  float dynatemp_range, dynatemp_exponent;
  int32_t top_k; /* 0: all; 40 */
  float top_p;   /* 1: all; 0.95 */
  float min_p;   /* 0: all; 0.05 */
  float typical_p;
  float top_n_sigma;
  float xtc_probability, xtc_threshold;
  int32_t penalty_last_n;
  float penalty_repeat, penalty_presence, penalty_frequency;
  float dry_multiplier, dry_base;
  int32_t dry_allowed_length, dry_last_n;
  float adaptive_target, adaptive_decay;
  int32_t mirostat; /* 0, 1 or 2 */
  float mirostat_tau, mirostat_eta;
} tessera_sampler_options;

/* A */
TESSERA_API void tessera_sampler_options_init(tessera_sampler_options* options, size_t size);
/* A. A sampler for texts of at most n_ctx tokens. options: NULL for the defaults. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sampler_create(const tessera_model* model, const tessera_sampler_options* options,
                                                  int64_t n_ctx, tessera_sampler** sampler, tessera_error* error);

enum { TESSERA_GRAMMAR_GBNF = 0, TESSERA_GRAMMAR_JSON_SCHEMA = 1, TESSERA_GRAMMAR_REGEX = 2 };
/* S. From now on the sampler chooses only tokens that fit a grammar. text NULL: any token again. Errors: FORMAT, with
 * the place; UNSUPPORTED; LIMIT. */
TESSERA_API tessera_status tessera_sampler_set_grammar(tessera_sampler* sampler, int32_t kind, const char* text,
                                                       int64_t length, tessera_error* error);

/* Does not grow. */
typedef struct tessera_token_bias {
  int32_t token;
  float bias; /* added to the logit of the token; -INFINITY: never chosen */
} tessera_token_bias;
/* S. Replaces the biases of a sampler; a count of 0 removes them. Several biases of a token add up. Errors:
 * INVALID_ARGUMENT (no token, NaN, +INFINITY); then nothing changes. */
TESSERA_API tessera_status tessera_sampler_set_bias(tessera_sampler* sampler, const tessera_token_bias* biases,
                                                    uint64_t count, tessera_error* error);

enum {
  TESSERA_STEP_FIRST = 0, /* after biases and grammar, before the steps of the options: sees all tokens */
  TESSERA_STEP_LAST = 1   /* after these steps: sees what they left, and decides what the choice is made from */
};
/* Does not grow. */
typedef struct tessera_token_logit {
  int32_t token;
  float logit;
} tessera_token_logit;
/* A step of a program in a sampler. The functions are called on the thread that uses the sampler, and must not use the
 * sampler themselves. */
typedef struct tessera_sampler_step {
  uint32_t size;
  int32_t place; /* TESSERA_STEP_... */
  void* user;
  /* Changes logits; -INFINITY or NaN removes a candidate. Changes of `token` are ignored. Returns 0 to go on; otherwise
   * the call that samples returns CANCELLED. */
  int32_t (*apply)(void* user, tessera_token_logit* candidates, uint64_t count);
  void (*accept)(void* user, int32_t token); /* a token joins the text; may be NULL */
  void (*reset)(void* user);                 /* the text is forgotten; may be NULL */
} tessera_sampler_step;
/* A. Sets all members to 0. `size` is sizeof(tessera_sampler_step). The program then sets the members. */
TESSERA_API void tessera_sampler_step_init(tessera_sampler_step* step, size_t size);
/* S. Adds a step behind those that were added before at its place. A copy of the sampler has the same step with the
 * same user, so a step that remembers the text is wrong for copies: add it to a sampler of its own. `user` is needed
 * until the sampler and its copies are freed. Errors: INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_sampler_add(tessera_sampler* sampler, const tessera_sampler_step* step,
                                               tessera_error* error);

/* S. Chooses a token for logits, such as tessera_session_output(). It joins the text by tessera_sampler_accept().
 * Errors: MISMATCH (`count` is not the size of the vocabulary); INVALID_ARGUMENT (no token can be chosen). */
TESSERA_API tessera_status tessera_sampler_sample(tessera_sampler* sampler, const float* logits, uint64_t count,
                                                  int32_t* token, tessera_error* error);
/* S. Adds a token to the text. Errors: INVALID_ARGUMENT (no token, or not allowed by the grammar). */
TESSERA_API tessera_status tessera_sampler_accept(tessera_sampler* sampler, int32_t token, tessera_error* error);
/* Does not grow. */
typedef struct tessera_candidate {
  int32_t token;
  float probability;
} tessera_candidate;
/* S. The most probable candidates of the last sample, with their probabilities after all steps. Returns their number,
 * at most `room`. */
TESSERA_API uint64_t tessera_sampler_top(tessera_sampler* sampler, tessera_candidate* candidates, uint64_t room);
/* S. Forgets the text, and begins again with the seed. */
TESSERA_API void tessera_sampler_reset(tessera_sampler* sampler);
/* S. A copy with the same text and random state. Errors: OUT_OF_MEMORY. */
TESSERA_API tessera_status tessera_sampler_clone(tessera_sampler* sampler, tessera_sampler** copy,
                                                 tessera_error* error);
/* A */
TESSERA_API tessera_sampler* tessera_sampler_retain(tessera_sampler* sampler);
/* A */
TESSERA_API void tessera_sampler_release(tessera_sampler* sampler);

/* ---- Generation: a text that continues a prompt, token by token ---- */

typedef struct tessera_generation tessera_generation;

typedef struct tessera_generation_options {
  uint32_t size;
  uint32_t flags;    /* TESSERA_GENERATE_... */
  int64_t n_predict; /* tokens at most; 0: until the model ends the text or the context is full */
  int64_t n_keep;    /* tokens that stay when the context is shifted; -1: the whole prompt */
  int64_t n_batch;   /* tokens of the prompt per decode; 0: 2048 */
} tessera_generation_options;
enum {
  TESSERA_GENERATE_IGNORE_END = 1,    /* go on after a token that ends a text */
  TESSERA_GENERATE_CONTEXT_SHIFT = 2, /* when the context is full, forget half of the tokens after n_keep */
  TESSERA_GENERATE_SPECIAL = 4        /* the text has control tokens, too */
};

enum {
  TESSERA_STOP_NONE = 0,      /* more tokens can follow */
  TESSERA_STOP_END = 1,       /* the model ended the text, or the grammar allows nothing more */
  TESSERA_STOP_N_PREDICT = 2, /* n_predict tokens were generated */
  TESSERA_STOP_CONTEXT = 3    /* the context is full */
};

/* A */
TESSERA_API void tessera_generation_options_init(tessera_generation_options* options, size_t size);
/* S, for session and sampler, which the generation keeps and uses. Creates a generation. One at a time uses a sequence.
 * options: NULL for the defaults. Errors: INVALID_ARGUMENT (the sequence; the models of session and sampler differ). */
TESSERA_API tessera_status tessera_generation_create(tessera_session* session, tessera_sampler* sampler,
                                                     int32_t sequence, const tessera_generation_options* options,
                                                     tessera_generation** generation, tessera_error* error);
/* S. Decodes a prompt in place of all tokens of the sequence. The sampler begins a new text. Errors: INVALID_ARGUMENT
 * (no token, or one out of range); LIMIT (longer than the context); CANCELLED. */
TESSERA_API tessera_status tessera_generation_start(tessera_generation* generation, const int32_t* tokens,
                                                    uint64_t count, tessera_cancel* cancel, tessera_error* error);
/* S. Does what tessera_generation_start() does, with a text as prompt. flags: TESSERA_TOKENIZE_... Errors: also those
 * of tessera_tokenize(). */
TESSERA_API tessera_status tessera_generation_start_text(tessera_generation* generation, const char* text,
                                                         int64_t length, uint32_t flags, tessera_cancel* cancel,
                                                         tessera_error* error);
/* The next token. Does not grow. */
typedef struct tessera_generated {
  int32_t token; /* -1 at the end */
  int32_t stop;  /* TESSERA_STOP_... */
  /* The text that is complete with this token, ended by a NUL: whole characters only, "" while one is incomplete. Valid
   * until the next call. */
  const char* text;
  uint64_t n_bytes;
} tessera_generated;
/* S. Generates the next token. At the end, `text` has what was incomplete. Errors: those of tessera_session_decode(),
 * and of the sampler. */
TESSERA_API tessera_status tessera_generation_next(tessera_generation* generation, tessera_generated* next,
                                                   tessera_cancel* cancel, tessera_error* error);
/* A */
TESSERA_API tessera_generation* tessera_generation_retain(tessera_generation* generation);
/* A */
TESSERA_API void tessera_generation_release(tessera_generation* generation);

/* A token of tessera_generate(), and at the end the reason with the rest of the text. `next` is valid during the call.
 * Returns 0 to go on. */
typedef int32_t (*tessera_generated_function)(void* user, const tessera_generated* next);
/* S, for session and sampler. Generates a text that continues the tokens of a prompt, and calls a function for each
 * token. The same as tessera_generation_create(), _start(), and _next() up to the end. Errors: those of the three;
 * CANCELLED, also when the function returns another number than 0. */
TESSERA_API tessera_status tessera_generate(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                                            const tessera_generation_options* options, const int32_t* tokens,
                                            uint64_t count, tessera_generated_function function, void* user,
                                            tessera_cancel* cancel, tessera_error* error);
/* S, for session and sampler. Does what tessera_generate() does, with a text as prompt. flags: TESSERA_TOKENIZE_... */
TESSERA_API tessera_status tessera_generate_text(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                                                 const tessera_generation_options* options, const char* text,
                                                 int64_t length, uint32_t flags, tessera_generated_function function,
                                                 void* user, tessera_cancel* cancel, tessera_error* error);

/* ---- Chat: messages to a prompt, and the text of a model to a message ---- */

typedef struct tessera_template tessera_template;

enum { TESSERA_TEMPLATE_FOR_TOOLS = 1 /* the model's template for chats with tools, where it has another one */ };
/* A. A template that writes messages as a model expects them. source: NULL for the model's own; the name of a built-in
 * one, such as "chatml"; or a template in the language of Jinja. flags: TESSERA_TEMPLATE_... The model need not be
 * loaded. Errors: NOT_FOUND (the model has none, or the name is not known); FORMAT, with the place. */
TESSERA_API tessera_status tessera_template_open(const tessera_model* model, const char* source, int64_t length,
                                                 uint32_t flags, tessera_template** created, tessera_error* error);
/* A */
TESSERA_API tessera_template* tessera_template_retain(tessera_template* chat_template);
/* A */
TESSERA_API void tessera_template_release(tessera_template* chat_template);

enum { TESSERA_THINKING_DEFAULT = 0, TESSERA_THINKING_ON = 1, TESSERA_THINKING_OFF = 2 };

/* NULL stands for a text that is not given. */
typedef struct tessera_render_options {
  uint32_t size;
  uint32_t flags;               /* TESSERA_RENDER_... */
  const char* tools;            /* JSON: a list of tools as in the OpenAI API */
  const char* documents;        /* JSON: a list of objects with title and text */
  const char* variables;        /* JSON: an object; its members are variables of the template */
  const char* reasoning_effort; /* such as "low"; "none" for no thinking */
  int64_t time;                 /* seconds since 1970 that the template takes for now; 0: the time of the call */
  int32_t thinking;             /* TESSERA_THINKING_..., for models that can do both */
} tessera_render_options;
enum {
  TESSERA_RENDER_NO_REPLY = 1,      /* do not begin a reply at the end */
  TESSERA_RENDER_CONTINUE_LAST = 2, /* the reply continues the last message */
  TESSERA_RENDER_NO_CHANGES = 4     /* give the template the messages as they are */
};
/* A */
TESSERA_API void tessera_render_options_init(tessera_render_options* options, size_t size);
/* A. Writes the prompt of a conversation, ended by a NUL. messages: JSON, a list of messages as in the OpenAI API, with
 * texts as contents. They are adapted to what the template can do. options: NULL for the defaults. *needed gets the
 * number of bytes with the NUL. *reply_at, which may be NULL, gets the byte of the prompt where the reply begins: see
 * tessera_reply_options. Errors: LIMIT (`room` is too small); INVALID_ARGUMENT, with the path of the member; FORMAT
 * (no JSON; an error of the template, with the place). */
TESSERA_API tessera_status tessera_template_render(const tessera_template* chat_template, const char* messages,
                                                   int64_t length, const tessera_render_options* options, char* buffer,
                                                   uint64_t room, uint64_t* needed, uint64_t* reply_at,
                                                   tessera_error* error);
/* A. Writes the prompt of tessera_template_render() as tokens. Control tokens come from the template only: in the texts
 * of messages they are plain text. So prefer this to tessera_tokenize(). *needed gets the number of tokens. Errors: as
 * tessera_template_render() and tessera_tokenize(). */
TESSERA_API tessera_status tessera_template_tokenize(const tessera_template* chat_template, const char* messages,
                                                     int64_t length, const tessera_render_options* options,
                                                     int32_t* tokens, uint64_t room, uint64_t* needed,
                                                     tessera_error* error);

enum {
  TESSERA_REPLY_GROWS = 0, /* more text may follow */
  TESSERA_REPLY_ENDED = 1, /* the model ended it: TESSERA_STOP_END */
  TESSERA_REPLY_CUT = 2    /* it ended for another reason */
};
enum {
  TESSERA_REASONING_SEPARATE = 0, /* in reasoning_content */
  TESSERA_REASONING_CONTENT = 1,  /* in content, with its marks */
  TESSERA_REASONING_BOTH = 2
};

typedef struct tessera_reply_options {
  uint32_t size;
  uint32_t flags;     /* TESSERA_PARSE_... */
  const char* tools;  /* the tools of tessera_render_options; NULL: no calls are looked for */
  const char* prompt; /* the prompt from *reply_at on, where reasoning may begin; NULL: none */
  uint64_t seed;      /* of the ids of calls: give each reply another number */
  int32_t end;        /* TESSERA_REPLY_GROWS, _ENDED or _CUT */
  int32_t reasoning;  /* TESSERA_REASONING_... */
} tessera_reply_options;
enum { TESSERA_PARSE_ONE_CALL = 1 /* later calls are left out */ };
/* A */
TESSERA_API void tessera_reply_options_init(tessera_reply_options* options, size_t size);
/* A. Writes the text of a model as a message in JSON, ended by a NUL, which can join the messages of the next prompt:
 * {"role": "assistant", "content": "...", "reasoning_content": "...", "tool_calls": [...], "warnings": ["..."]}. Only
 * the first two are always there. Each warning says what in the text is not as the model's format wants it. text: all
 * text of the reply so far, with control tokens (TESSERA_GENERATE_SPECIAL). While the text grows, the message does,
 * too. options: NULL for the defaults. *needed gets the number of bytes with the NUL. Errors: LIMIT (`room` is too
 * small); FORMAT (the tools); INVALID_ARGUMENT. */
TESSERA_API tessera_status tessera_reply_parse(const tessera_template* chat_template, const char* text, int64_t length,
                                               const tessera_reply_options* options, char* buffer, uint64_t room,
                                               uint64_t* needed, tessera_error* error);

/* ---- Files: quantize, convert, split, merge, verify, importance matrices ---- */

/* These functions read files and write others, as the commands of the same names do. An output has its name only when
 * it is complete: after an error or a request to stop, no part of it is there. An output that is a file of the input is
 * refused. Outputs have the same bytes for any number of threads.
 *
 * options may be NULL for the defaults, and progress, cancel and info may be NULL. info->size must be set; the struct
 * is filled after a success. progress gets the share of the work that is done, 0 to 1, on the thread of the call.
 * Common errors: INVALID_ARGUMENT; NOT_FOUND, IO and FORMAT (a file); UNSUPPORTED; OUT_OF_MEMORY; CANCELLED (by cancel,
 * or by progress). Warnings go to the log of the runtime. */

typedef struct tessera_written_info {
  uint32_t size;
  uint32_t n_files;
  uint64_t n_tensors;
  uint64_t n_values;       /* of all tensors */
  uint64_t n_bytes_before; /* of the files of the input */
  uint64_t n_bytes;        /* of the files of the output */
  char type[16];           /* of the output, such as "Q4_K_M"; "": not known */
} tessera_written_info;

typedef struct tessera_quantize_options {
  uint32_t size;
  uint32_t flags;          /* TESSERA_QUANTIZE_... */
  const char* type;        /* a mix such as "Q4_K_M", or "COPY"; may be NULL with max_bytes or bits_per_value */
  int32_t n_threads;       /* 0: those of the runtime */
  float bits_per_value;    /* find the best types for a file of so many bits for each value; 0: off */
  uint64_t max_bytes;      /* find the best types for a file of at most so many bytes; 0: off */
  const char* imatrix;     /* file of an importance matrix, or NULL */
  const char* importance;  /* parts of names with commas: of the tensors that use the matrix; NULL: all */
  const char* unimportant; /* of those that do not use it; NULL: none */
  /* Types of single tensors, such as "attn_v=q8_0": lines of a regular expression, "=" and a type. The first match of
   * a name is used. NULL: none. */
  const char* tensor_types;
  const char* output_type;    /* of output.weight, such as "q6_K"; NULL: by the mix */
  const char* embedding_type; /* of token_embd.weight; NULL: by the mix */
} tessera_quantize_options;
enum {
  TESSERA_QUANTIZE_PLAN = 1,        /* write nothing: info has what would be written; the output may be NULL */
  TESSERA_QUANTIZE_PURE = 2,        /* the same type for all weights */
  TESSERA_QUANTIZE_KEEP_OUTPUT = 4, /* leave output.weight as it is */
  TESSERA_QUANTIZE_KEEP_SPLIT = 8,  /* one output for each part of the input */
  TESSERA_QUANTIZE_MAGNITUDE = 16,  /* errors of large weights count more, beside importance */
  TESSERA_QUANTIZE_COMPATIBLE = 32  /* choose codes as ggml does, instead of those with the least error */
};

/* A */
TESSERA_API void tessera_quantize_options_init(tessera_quantize_options* options, size_t size);
/* A. Writes a model with smaller types. options: at least a type, max_bytes or bits_per_value. Errors: also LIMIT (no
 * types give so small a file); MISMATCH (an importance matrix of another model); FORMAT (a value that is not finite).
 */
TESSERA_API tessera_status tessera_quantize(tessera_runtime* runtime, const char* input, const char* output,
                                            const tessera_quantize_options* options, tessera_progress_function progress,
                                            void* user, tessera_cancel* cancel, tessera_written_info* info,
                                            tessera_error* error);

typedef struct tessera_convert_options {
  uint32_t size;
  uint32_t flags;                      /* TESSERA_CONVERT_... */
  const tessera_quantize_options* mix; /* type and threads; NULL: the 16-bit type of the checkpoint */
  const char* vocabulary;              /* folder with the files of the tokenizer; NULL: that of the checkpoint */
  const char* pre;           /* name of the pre-tokenizer, where its steps are not known; NULL: by its steps */
  const char* base;          /* of an adapter: folder with the config.json of its model; NULL: as it says */
  uint64_t max_file_tensors; /* of one file of the output; 0: any number */
  uint64_t max_file_bytes;   /* of the tensors in one file of the output; 0: any number */
} tessera_convert_options;
enum {
  TESSERA_CONVERT_CHECK_TENSORS = 1, /* refuse values that are not finite, also where they are copied */
  TESSERA_CONVERT_DROP_LATER = 2,    /* leave out layers that predict further tokens */
  TESSERA_CONVERT_KEYS_FIRST = 4,    /* of several files, the first has only the keys */
  TESSERA_CONVERT_RESUME = 8         /* continue what was interrupted; an interrupt leaves FILE.(digits).part */
};

/* A */
TESSERA_API void tessera_convert_options_init(tessera_convert_options* options, size_t size);
/* A. Writes a checkpoint, as hubs store models, as a GGUF file, or a LoRA adapter. input: a folder, or a file of
 * tensors in it. In options->mix, flags for single weights need a quantized type, max_bytes or bits_per_value. Errors:
 * also LIMIT (too little space on the disk; too many files). */
TESSERA_API tessera_status tessera_convert(tessera_runtime* runtime, const char* input, const char* output,
                                           const tessera_convert_options* options, tessera_progress_function progress,
                                           void* user, tessera_cancel* cancel, tessera_written_info* info,
                                           tessera_error* error);

typedef struct tessera_split_options {
  uint32_t size;
  uint32_t flags;            /* TESSERA_SPLIT_... */
  uint64_t max_file_tensors; /* 0: 128, or any number with max_file_bytes */
  uint64_t max_file_bytes;   /* of the tensors in a file; 0: any number */
} tessera_split_options;
enum {
  TESSERA_SPLIT_PLAN = 1,      /* write nothing: info has what would be written; the prefix may be NULL */
  TESSERA_SPLIT_KEYS_FIRST = 2 /* the first file has only the keys */
};

/* A */
TESSERA_API void tessera_split_options_init(tessera_split_options* options, size_t size);
/* A. Writes a model as several files, PREFIX-00001-of-00003.gguf and so on. Refuses to replace files. Errors: also
 * LIMIT (too many files). In info, n_bytes are those of the tensors. */
TESSERA_API tessera_status tessera_split(const char* input, const char* prefix, const tessera_split_options* options,
                                         tessera_progress_function progress, void* user, tessera_cancel* cancel,
                                         tessera_written_info* info, tessera_error* error);

typedef struct tessera_merge_options {
  uint32_t size;
  uint32_t flags; /* 0 */
} tessera_merge_options;

/* A */
TESSERA_API void tessera_merge_options_init(tessera_merge_options* options, size_t size);
/* A. Writes the parts of a model as one file. first: the first part. Refuses to replace a file. */
TESSERA_API tessera_status tessera_merge(const char* first, const char* output, const tessera_merge_options* options,
                                         tessera_progress_function progress, void* user, tessera_cancel* cancel,
                                         tessera_written_info* info, tessera_error* error);

typedef struct tessera_verify_options {
  uint32_t size;
  int32_t n_threads;     /* 0: those of the runtime */
  const char* reference; /* file of `tessera logits`: the CPU must compute the same; NULL: not checked */
  float max_nmse;        /* the largest normalised mean squared error of the logits; 0: 0.01 */
} tessera_verify_options;
typedef struct tessera_verify_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t n_tensors;
  uint64_t n_bytes;            /* of the tensors */
  uint64_t n_blocks;           /* that were checked */
  uint64_t n_tokens;           /* of the vocabulary; 0: none, or its tokenizer is not implemented */
  uint64_t n_round_trips;      /* texts that came back; 0: the tokenizer does not promise it */
  uint64_t n_reference_tokens; /* 0: no reference */
  double nmse;                 /* of the logits */
  char tokenizer[32];          /* its kind, such as "llama" */
} tessera_verify_info;

/* A */
TESSERA_API void tessera_verify_options_init(tessera_verify_options* options, size_t size);
/* A. Checks a model file: its structure, its values, and that its tokenizer restores texts. A fault is an error: FORMAT
 * (with the place), MISMATCH (other logits than the reference). */
TESSERA_API tessera_status tessera_verify(tessera_runtime* runtime, const char* path,
                                          const tessera_verify_options* options, tessera_progress_function progress,
                                          void* user, tessera_cancel* cancel, tessera_verify_info* info,
                                          tessera_error* error);

typedef struct tessera_imatrix_options {
  uint32_t size;
  uint32_t flags;            /* TESSERA_IMATRIX_... */
  int64_t n_ctx;             /* tokens of a chunk of the text; 0: 512 */
  int64_t n_chunks;          /* at most; 0: all */
  int64_t n_skip;            /* chunks to skip at the beginning */
  int64_t save_every;        /* chunks between two saves of the output; 0: 10 */
  int64_t snapshot_every;    /* chunks between two files OUTPUT.at_N; 0: none */
  const char* text_name;     /* is recorded in the output; NULL: "(prompt)" */
  const char* const* merged; /* files of matrices that are added to the output */
  uint64_t n_merged;
  /* Cache types, n_ubatch and threads of the session that the call takes; its sizes are not used. NULL: defaults. */
  const tessera_session_options* session;
} tessera_imatrix_options;
enum {
  TESSERA_IMATRIX_OUTPUT_WEIGHT = 1, /* collect output.weight, too */
  TESSERA_IMATRIX_RESUME = 2,        /* continue the output file, with the same text */
  TESSERA_IMATRIX_NO_PERPLEXITY = 4,
  TESSERA_IMATRIX_DAT = 8 /* the older format; else it is that of the suffix: .dat, or GGUF */
};
typedef struct tessera_imatrix_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t n_weights;
  uint64_t n_chunks;
  int64_t n_scored;                    /* tokens of the text that were predicted; 0: no perplexity */
  double perplexity, perplexity_error; /* of the chunks of this call */
} tessera_imatrix_info;

/* A */
TESSERA_API void tessera_imatrix_options_init(tessera_imatrix_options* options, size_t size);
/* S, for the model, which must be loaded. Measures how strongly a text drives each column of a model's weights, for
 * tessera_quantize(). With model and text NULL, only adds the files of options->merged. What was saved before an error
 * stays. Errors: also LIMIT (the text is shorter than two chunks); MISMATCH (matrices of different models). */
TESSERA_API tessera_status tessera_imatrix_collect(tessera_model* model, const char* text, int64_t length,
                                                   const char* output, const tessera_imatrix_options* options,
                                                   tessera_progress_function progress, void* user,
                                                   tessera_cancel* cancel, tessera_imatrix_info* info,
                                                   tessera_error* error);

/* ---- Measure: perplexity, the cost of a step, timelines ---- */

typedef struct tessera_perplexity_options {
  uint32_t size;
  uint32_t flags;   /* TESSERA_PERPLEXITY_... */
  int64_t n_ctx;    /* tokens of a chunk; 0: 512 */
  int64_t stride;   /* chunks overlap: each begins so many tokens after the one before it; 0: no overlap */
  int64_t n_chunks; /* at most; 0: all */
  /* Cache types, n_ubatch and threads of the session that the call takes; its sizes are not used. NULL: defaults. */
  const tessera_session_options* session;
} tessera_perplexity_options;
enum { TESSERA_PERPLEXITY_F32_ACTIVATIONS = 1 /* instead of 8-bit codes: slow */ };
typedef struct tessera_perplexity_info {
  uint32_t size;
  uint32_t reserved;
  int64_t n_chunks;
  int64_t n_tokens;                    /* that were predicted: the second half of each chunk */
  double mean_nll, mean_nll_error;     /* negative logarithm of their probabilities, and its standard error */
  double perplexity, perplexity_error; /* exp(mean_nll) */
} tessera_perplexity_info;

/* A */
TESSERA_API void tessera_perplexity_options_init(tessera_perplexity_options* options, size_t size);
/* S, for the model, which must be loaded. How well a model predicts a text: the numbers of `tessera perplexity`. Takes
 * a session of its own for the call. options, progress and cancel may be NULL. Errors: INVALID_ARGUMENT; FORMAT (the
 * text is not UTF-8); LIMIT (shorter than two chunks); OUT_OF_MEMORY; CANCELLED. */
TESSERA_API tessera_status tessera_perplexity(tessera_model* model, const char* text, int64_t length,
                                              const tessera_perplexity_options* options,
                                              tessera_progress_function progress, void* user, tessera_cancel* cancel,
                                              tessera_perplexity_info* info, tessera_error* error);
/* S. The same for the tokens of a text. Errors: also MISMATCH (a number that is no token). */
TESSERA_API tessera_status tessera_perplexity_of_tokens(tessera_model* model, const int32_t* tokens, uint64_t count,
                                                        const tessera_perplexity_options* options,
                                                        tessera_progress_function progress, void* user,
                                                        tessera_cancel* cancel, tessera_perplexity_info* info,
                                                        tessera_error* error);

/* The least that a step must compute and read. */
typedef struct tessera_step_cost_info {
  uint32_t size;
  uint32_t reserved;
  double macs;                  /* multiply-adds with weights */
  double int8_macs;             /* those with quantized weights, computed as integers */
  double weight_bytes;          /* of all weights of these products, as the file has them */
  double macs_per_pair;         /* of attention: for a token and a position that it attends to */
  double kv_bytes_per_position; /* K and V of one position, in all layers */
} tessera_step_cost_info;
/* S. The cost of a micro-batch of n_tokens with n_outputs rows of logits. Computes nothing. Errors: INVALID_ARGUMENT
 * (more than n_ubatch or n_outputs of the session). */
TESSERA_API tessera_status tessera_session_step_cost(tessera_session* session, int64_t n_tokens, int64_t n_outputs,
                                                     tessera_step_cost_info* info, tessera_error* error);

/* A piece of an output. Returns 0 to go on. */
typedef int32_t (*tessera_write_function)(void* user, const char* bytes, uint64_t n_bytes);

/* S. Records all steps of a session from now on, as `tessera trace` does: devices, operations, copies. Steps are slower
 * meanwhile, and their results the same. Errors: INVALID_ARGUMENT (it is recorded already). */
TESSERA_API tessera_status tessera_trace_begin(tessera_session* session, tessera_error* error);
/* S. Writes the timeline for ui.perfetto.dev or chrome://tracing, JSON ended by a NUL, and ends the recording. *needed
 * gets the bytes with the NUL. Errors: LIMIT (`room` is too small: the recording goes on, so that the bytes needed grow
 * with the next step); INVALID_ARGUMENT (nothing is recorded). */
TESSERA_API tessera_status tessera_trace_end(tessera_session* session, char* buffer, uint64_t room, uint64_t* needed,
                                             tessera_error* error);
/* S. The same in pieces, without a NUL. Errors: CANCELLED (by `write`: the recording goes on). */
TESSERA_API tessera_status tessera_trace_end_pieces(tessera_session* session, tessera_write_function write, void* user,
                                                    tessera_error* error);

#ifdef __cplusplus
}
#endif

#endif
