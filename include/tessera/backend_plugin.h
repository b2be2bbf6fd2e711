/* The contract between tessera and a backend that it loads at run time: docs/add_backend.md explains it,
 * examples/backend is one. Plain C99, no other header of tessera.
 *
 * Versions. A plugin and a program fit if their majors are equal. A minor only adds: members at the end of structs,
 * operations, parameters, codes. Each struct that can grow begins with its size in bytes, set by whoever made it;
 * whoever reads it takes members beyond that size as 0.
 *
 * Errors. Functions that can fail return a code and write a line of text, ended by a NUL, into `text`, which has room
 * for `text_bytes` bytes (at least 256). Nothing may be thrown, and no jump may leave a function.
 *
 * Threads. Any function may be called from any thread. Calls with the same backend or plan never overlap; all others
 * may.
 */
#ifndef TESSERA_BACKEND_PLUGIN_H
#define TESSERA_BACKEND_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_PLUGIN_MAJOR 1
#define TESSERA_PLUGIN_MINOR 0

/* Codes. Any other counts as TESSERA_PLUGIN_INTERNAL. */
enum {
  TESSERA_PLUGIN_OK = 0,
  TESSERA_PLUGIN_INVALID_ARGUMENT = 1, /* a value is out of its range; in run(): an index in the data */
  TESSERA_PLUGIN_UNSUPPORTED = 2,      /* well-formed, but not built */
  TESSERA_PLUGIN_OUT_OF_MEMORY = 3,
  TESSERA_PLUGIN_LIMIT = 4, /* a stated bound would be passed */
  TESSERA_PLUGIN_CANCELLED = 5,
  TESSERA_PLUGIN_IO = 6, /* the system or a driver refused */
  TESSERA_PLUGIN_INTERNAL = 7
};

/* Kinds of devices */
enum { TESSERA_PLUGIN_CPU = 0, TESSERA_PLUGIN_GPU = 1, TESSERA_PLUGIN_ACCELERATOR = 2 };

/* Types by their GGUF ids: those that are no weights' formats. */
enum {
  TESSERA_PLUGIN_F32 = 0,
  TESSERA_PLUGIN_F16 = 1,
  TESSERA_PLUGIN_Q8_0 = 8,
  TESSERA_PLUGIN_I32 = 26,
  TESSERA_PLUGIN_I64 = 27,
  TESSERA_PLUGIN_BF16 = 30
};

/* What a buffer will hold, so that it can be placed well. */
enum { TESSERA_PLUGIN_ANY = 0, TESSERA_PLUGIN_WEIGHTS = 1, TESSERA_PLUGIN_CACHE = 2, TESSERA_PLUGIN_COMPUTE = 3 };

/* Flags of a device */
enum {
  /* The host reads and writes its buffers at buffer_base(), and it computes on any memory of the host: a place may have
   * an address and no buffer. */
  TESSERA_PLUGIN_HOST_MEMORY = 1
};

typedef struct tessera_plugin_property {
  const char* name;
  const char* value;
} tessera_plugin_property;

/* Lives until device_close(). */
typedef struct tessera_plugin_device_info {
  uint32_t size;
  int32_t kind;
  uint32_t flags;
  uint32_t n_properties;                     /* at most 64 */
  const tessera_plugin_property* properties; /* facts worth printing */
  const char* description;
  uint64_t alignment;        /* of tensors in a buffer: a power of two, at most 1 MiB */
  uint64_t max_buffer_bytes; /* the largest buffer that can be allocated at once */
} tessera_plugin_device_info;

/* A parameter of an operation. Floats are exact values of f32. This struct does not grow. */
typedef struct tessera_plugin_param {
  const char* name;
  int64_t integer; /* integers, flags (0 or 1), choices; 0 if it is a float */
  double number;   /* floats, and integers once more */
} tessera_plugin_param;

/* A node of a graph. What operations mean: docs/add_backend.md. */
typedef struct tessera_plugin_node {
  uint32_t size;
  uint32_t index;   /* its number in the graph, and that of its place */
  const char* op;   /* "mul_mat" */
  const char* name; /* for messages, or "" */
  int32_t dtype;    /* GGUF id */
  uint32_t is_output;
  int64_t ne[4]; /* extents, innermost first; 1 where there is no dimension; any may be 0 */
  int64_t nb[4]; /* bytes between neighbours in each dimension; nb[0] between blocks of blocked types */
  uint32_t n_sources;
  uint32_t n_params;
  const struct tessera_plugin_node* const* sources; /* NULL where an optional operand is absent */
  const tessera_plugin_param* params;
  const struct tessera_plugin_node* alias_of; /* its bytes are bytes of that node (a view, a store in place), or NULL */
  uint64_t alias_offset;                      /* from that node's first byte */
} tessera_plugin_node;

/* Nodes in the order in which they run: sources stand before their readers. Leaves ("input", "tensor") and "view" are
 * among them and have nothing to run. Lives as long as the plan that is made of it. */
typedef struct tessera_plugin_graph {
  uint32_t size;
  uint32_t n_nodes;
  const tessera_plugin_node* const* nodes;
} tessera_plugin_graph;

/* Where a value lies. This struct does not grow. */
typedef struct tessera_plugin_place {
  void* buffer;    /* of this device, or NULL: memory of the host that the device did not allocate */
  uint64_t offset; /* in the buffer */
  void* address;   /* of the first byte, where the device has TESSERA_PLUGIN_HOST_MEMORY; else NULL */
} tessera_plugin_place;

typedef struct tessera_plugin_backend_options {
  uint32_t size;
  int32_t n_threads; /* threads of the host that it may use, at least 1 */
} tessera_plugin_backend_options;

typedef struct tessera_plugin_compile_args {
  uint32_t size;
  uint32_t reserved;
  const tessera_plugin_graph* graph;
  const tessera_plugin_place* places; /* by node */
  tessera_plugin_place work;          /* scratch memory, shared by all plans of the backend */
  uint64_t work_bytes;                /* at least what work_bytes() said of this graph */
} tessera_plugin_compile_args;

typedef struct tessera_plugin_run_args {
  uint32_t size;
  uint32_t reserved;
  void* context; /* for these functions */
  /* Not 0: stop soon, with TESSERA_PLUGIN_CANCELLED. Cheap. */
  int32_t (*cancelled)(void* context);
  /* To be called when a node's work begins, if that is known; NULL if nobody asks. */
  void (*begins)(void* context, uint32_t index);
} tessera_plugin_run_args;

/* What a plugin is: a table that lives as long as the process. Functions must not be NULL unless so stated. */
typedef struct tessera_plugin {
  uint32_t size; /* these three stand here in every version */
  uint32_t major;
  uint32_t minor;
  uint32_t reserved;
  const char* name;    /* [a-z0-9_]+; devices are name:0, name:1, ... */
  const char* variant; /* [a-z0-9_]*; of several variants of one name the one with the highest score is used */
  const char* version; /* of the plugin, for people */

  /* How well this machine suits: 0 where it cannot run at all (an instruction is missing), more is better. Is asked
   * first, and of a variant that is not used nothing else is. */
  int32_t (*score)(void);

  /* --- devices; at most 64, and none is no error */
  uint32_t (*device_count)(void);
  int32_t (*device_open)(uint32_t index, void** device, char* text, size_t text_bytes);
  void (*device_close)(void* device);
  const tessera_plugin_device_info* (*device_info)(void* device);
  void (*device_memory)(void* device, uint64_t* total_bytes, uint64_t* free_bytes);

  /* --- buffers. Tensors lie in them as in files, row after row. */
  /* Bytes to set aside for a tensor, no less than its rows take; NULL: exactly those. 0: the device cannot hold it. */
  uint64_t (*tensor_bytes)(void* device, int32_t dtype, const int64_t ne[4]);
  /* Zeroed memory, aligned as device_info says. */
  int32_t (*buffer_alloc)(void* device, uint64_t bytes, int32_t usage, void** buffer, char* text, size_t text_bytes);
  void (*buffer_free)(void* device, void* buffer);
  /* The address of the first byte, or NULL where the host cannot address it. */
  void* (*buffer_base)(void* device, void* buffer);
  /* Done when they return. Ranges lie within the buffer. */
  int32_t (*buffer_set)(void* device, void* buffer, uint64_t offset, const void* bytes, uint64_t n, char* text,
                        size_t text_bytes);
  int32_t (*buffer_get)(void* device, void* buffer, uint64_t offset, void* bytes, uint64_t n, char* text,
                        size_t text_bytes);
  /* Sets every byte. */
  int32_t (*buffer_clear)(void* device, void* buffer, uint8_t value, char* text, size_t text_bytes);

  /* --- what it can do */
  /* Whether it runs this node. Its sources are there, without sources of their own. A node with a parameter of a name
   * that the plugin does not know is not to be run. */
  int32_t (*supports)(void* device, const tessera_plugin_node* node);
  /* Whether caches may have this type; v: of V, else of K; dim: elements of a head. NULL: never. */
  int32_t (*supports_kv)(void* device, int32_t dtype, int32_t v, int64_t dim);

  /* --- work: a backend is a stream of it */
  int32_t (*backend_open)(void* device, const tessera_plugin_backend_options* options, void** backend, char* text,
                          size_t text_bytes);
  void (*backend_close)(void* backend);
  /* Bytes of scratch memory that the graph takes besides its values. */
  int32_t (*work_bytes)(void* backend, const tessera_plugin_graph* graph, uint64_t* bytes, char* text,
                        size_t text_bytes);
  /* A plan that can be run any number of times; the values at the places change between runs. */
  int32_t (*compile)(void* backend, const tessera_plugin_compile_args* args, void** plan, char* text,
                     size_t text_bytes);
  void (*plan_free)(void* backend, void* plan);
  /* Runs to the end; results are there when it returns. */
  int32_t (*run)(void* backend, void* plan, const tessera_plugin_run_args* args, char* text, size_t text_bytes);
} tessera_plugin;

/* The one symbol that a plugin exports: TESSERA_PLUGIN_EXPORT const tessera_plugin* tessera_backend_plugin(void). */
#define TESSERA_PLUGIN_SYMBOL "tessera_backend_plugin"
typedef const tessera_plugin* (*tessera_plugin_entry)(void);

#if defined(__cplusplus)
#define TESSERA_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TESSERA_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* --- for plugins */

/* A parameter by name, or NULL. */
static inline const tessera_plugin_param* tessera_plugin_find_param(const tessera_plugin_node* node, const char* name) {
  for (uint32_t i = 0; i < node->n_params; ++i)
    if (strcmp(node->params[i].name, name) == 0) return &node->params[i];
  return NULL;
}
static inline int64_t tessera_plugin_integer(const tessera_plugin_node* node, const char* name, int64_t absent) {
  const tessera_plugin_param* param = tessera_plugin_find_param(node, name);
  return param == NULL ? absent : param->integer;
}
static inline double tessera_plugin_number(const tessera_plugin_node* node, const char* name, double absent) {
  const tessera_plugin_param* param = tessera_plugin_find_param(node, name);
  return param == NULL ? absent : param->number;
}
/* A source, or NULL where it is absent. */
static inline const tessera_plugin_node* tessera_plugin_source(const tessera_plugin_node* node, uint32_t i) {
  return i < node->n_sources ? node->sources[i] : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
