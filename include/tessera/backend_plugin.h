/* The interface between tessera and a backend that it loads at run time. docs/add_backend.md explains it, and
 * examples/backend implements it. This header is plain C99 and needs no other header of tessera.
 *
 * Versions. A plugin and a program are compatible if their major versions are equal. A minor version only adds: members
 * at the end of structs, operations, parameters, codes. Each struct that can grow begins with its size in bytes, set by
 * the side that creates it. The side that reads it treats members beyond that size as 0.
 *
 * Errors. Functions that can fail return a code and write a line of text, ended by a NUL, into `text`, which has room
 * for `text_bytes` bytes (at least 256). Functions must not throw and must not be left by longjmp.
 *
 * Threads. Any function may be called from any thread. Calls with the same backend or plan never overlap; all other
 * calls may.
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

/* Result codes. Any other value counts as TESSERA_PLUGIN_INTERNAL. */
enum {
  TESSERA_PLUGIN_OK = 0,
  TESSERA_PLUGIN_INVALID_ARGUMENT = 1, /* a value is out of its range; in run(): an index in the data */
  TESSERA_PLUGIN_UNSUPPORTED = 2,      /* valid, but not implemented */
  TESSERA_PLUGIN_OUT_OF_MEMORY = 3,
  TESSERA_PLUGIN_LIMIT = 4, /* a documented limit would be exceeded */
  TESSERA_PLUGIN_CANCELLED = 5,
  TESSERA_PLUGIN_IO = 6, /* the operating system or a driver failed */
  TESSERA_PLUGIN_INTERNAL = 7
};

/* Kinds of devices */
enum { TESSERA_PLUGIN_CPU = 0, TESSERA_PLUGIN_GPU = 1, TESSERA_PLUGIN_ACCELERATOR = 2 };

/* GGUF ids of types that are not only weight formats. */
enum {
  TESSERA_PLUGIN_F32 = 0,
  TESSERA_PLUGIN_F16 = 1,
  TESSERA_PLUGIN_Q8_0 = 8,
  TESSERA_PLUGIN_I32 = 26,
  TESSERA_PLUGIN_I64 = 27,
  TESSERA_PLUGIN_BF16 = 30
};

/* The intended contents of a buffer, as a hint for its placement. */
enum { TESSERA_PLUGIN_ANY = 0, TESSERA_PLUGIN_WEIGHTS = 1, TESSERA_PLUGIN_CACHE = 2, TESSERA_PLUGIN_COMPUTE = 3 };

/* Flags of a device */
enum {
  /* The host reads and writes the device's buffers at buffer_base(), and the device computes on any memory of the host:
   * a binding may have an address and no buffer. */
  TESSERA_PLUGIN_HOST_MEMORY = 1
};

typedef struct tessera_plugin_property {
  const char* name;
  const char* value;
} tessera_plugin_property;

/* Valid until device_close(). */
typedef struct tessera_plugin_device_info {
  uint32_t size;
  int32_t kind;
  uint32_t flags;
  uint32_t n_properties;                     /* at most 64 */
  const tessera_plugin_property* properties; /* facts to print */
  const char* description;
  uint64_t alignment;        /* of tensors in a buffer: a power of two, at most 1 MiB */
  uint64_t max_buffer_bytes; /* the largest buffer that can be allocated at once */
} tessera_plugin_device_info;

/* A parameter of an operation. Floats are exact f32 values. This struct does not grow. */
typedef struct tessera_plugin_param {
  const char* name;
  int64_t integer; /* integers, flags (0 or 1), choices; 0 if it is a float */
  double number;   /* floats; for an integer the same value */
} tessera_plugin_param;

/* A node of a graph. docs/add_backend.md defines the operations. */
typedef struct tessera_plugin_node {
  uint32_t size;
  uint32_t index;   /* in the graph, and in the array of bindings */
  const char* op;   /* "mul_mat" */
  const char* name; /* for messages, or "" */
  int32_t dtype;    /* GGUF id */
  uint32_t is_output;
  int64_t ne[4]; /* extents, innermost first; 1 for unused dimensions; any may be 0 */
  int64_t nb[4]; /* strides in bytes; nb[0] is between elements, or between blocks for types stored in blocks */
  uint32_t n_sources;
  uint32_t n_params;
  const struct tessera_plugin_node* const* sources; /* entries are NULL for absent optional operands */
  const tessera_plugin_param* params;
  const struct tessera_plugin_node*
      alias_of;          /* the node whose memory this one shares (view, store in place), or NULL */
  uint64_t alias_offset; /* from that node's first byte */
} tessera_plugin_node;

/* Nodes in the order of execution: sources precede their readers. Leaves ("input", "tensor") and "view" are included
 * and need no work. Valid as long as the plan compiled from it. */
typedef struct tessera_plugin_graph {
  uint32_t size;
  uint32_t n_nodes;
  const tessera_plugin_node* const* nodes;
} tessera_plugin_graph;

/* The memory of a value. This struct does not grow. */
typedef struct tessera_plugin_binding {
  void* buffer;    /* of this device, or NULL: memory of the host that the device did not allocate */
  uint64_t offset; /* in the buffer */
  void* address;   /* of the first byte, if the device has TESSERA_PLUGIN_HOST_MEMORY; else NULL */
} tessera_plugin_binding;

typedef struct tessera_plugin_backend_options {
  uint32_t size;
  int32_t n_threads; /* number of host threads that it may use, at least 1 */
} tessera_plugin_backend_options;

typedef struct tessera_plugin_compile_args {
  uint32_t size;
  uint32_t reserved;
  const tessera_plugin_graph* graph;
  const tessera_plugin_binding* bindings; /* indexed by node */
  tessera_plugin_binding work;            /* scratch memory, shared by all plans of the backend */
  uint64_t work_bytes;                    /* at least the result of work_bytes() for this graph */
} tessera_plugin_compile_args;

typedef struct tessera_plugin_run_args {
  uint32_t size;
  uint32_t reserved;
  void* context; /* argument of these functions */
  /* If this returns a value other than 0, run() should soon return TESSERA_PLUGIN_CANCELLED. Cheap to call. */
  int32_t (*cancelled)(void* context);
  /* The plugin calls this when a node's work begins, if it knows. NULL: times are not requested. */
  void (*begins)(void* context, uint32_t index);
} tessera_plugin_run_args;

/* The table of a plugin, valid until the process ends. Functions must not be NULL unless stated. */
typedef struct tessera_plugin {
  uint32_t size; /* size, major and minor have the same offsets in every version */
  uint32_t major;
  uint32_t minor;
  uint32_t reserved;
  const char* name;    /* [a-z0-9_]+; devices are name:0, name:1, ... */
  const char* variant; /* [a-z0-9_]*; among variants with the same name, the one with the highest score is used */
  const char* version; /* of the plugin, for display */

  /* Rates the variant on this machine: 0 if it cannot run (an instruction is missing), higher is better. This is the
   * first function called. No other function of an unused variant is called. */
  int32_t (*score)(void);

  /* --- devices: 0 to 64 */
  uint32_t (*device_count)(void);
  int32_t (*device_open)(uint32_t index, void** device, char* text, size_t text_bytes);
  void (*device_close)(void* device);
  const tessera_plugin_device_info* (*device_info)(void* device);
  void (*device_memory)(void* device, uint64_t* total_bytes, uint64_t* free_bytes);

  /* --- buffers. Tensors have the layout of model files, row after row. */
  /* Returns the bytes to reserve for a tensor, at least the size of its rows, or 0 if the device cannot hold it.
   * NULL: exactly the size of its rows. */
  uint64_t (*tensor_bytes)(void* device, int32_t dtype, const int64_t ne[4]);
  /* Allocates zeroed memory with the alignment of device_info. */
  int32_t (*buffer_alloc)(void* device, uint64_t bytes, int32_t usage, void** buffer, char* text, size_t text_bytes);
  void (*buffer_free)(void* device, void* buffer);
  /* Returns the address of the first byte, or NULL if the host cannot address it. */
  void* (*buffer_base)(void* device, void* buffer);
  /* Copy bytes to or from a buffer and return when the copy is complete. Ranges are within the buffer. */
  int32_t (*buffer_set)(void* device, void* buffer, uint64_t offset, const void* bytes, uint64_t n, char* text,
                        size_t text_bytes);
  int32_t (*buffer_get)(void* device, void* buffer, uint64_t offset, void* bytes, uint64_t n, char* text,
                        size_t text_bytes);
  /* Sets every byte. */
  int32_t (*buffer_clear)(void* device, void* buffer, uint8_t value, char* text, size_t text_bytes);

  /* --- capabilities */
  /* Whether the device can run this node. The node's sources are given, without their own sources. Return 0 for a node
   * with a parameter whose name the plugin does not know. */
  int32_t (*supports)(void* device, const tessera_plugin_node* node);
  /* Whether a KV cache may have this type. v: not 0 for the cache of V, else K; dim: elements of a head. NULL: never.
   */
  int32_t (*supports_kv)(void* device, int32_t dtype, int32_t v, int64_t dim);

  /* --- backends: streams of work */
  int32_t (*backend_open)(void* device, const tessera_plugin_backend_options* options, void** backend, char* text,
                          size_t text_bytes);
  void (*backend_close)(void* backend);
  /* Computes the bytes of scratch memory that the graph needs besides its values. */
  int32_t (*work_bytes)(void* backend, const tessera_plugin_graph* graph, uint64_t* bytes, char* text,
                        size_t text_bytes);
  /* Creates a plan that can be run any number of times. The values in the bound memory change between runs. */
  int32_t (*compile)(void* backend, const tessera_plugin_compile_args* args, void** plan, char* text,
                     size_t text_bytes);
  void (*plan_free)(void* backend, void* plan);
  /* Runs the whole plan. Results are complete when it returns. */
  int32_t (*run)(void* backend, void* plan, const tessera_plugin_run_args* args, char* text, size_t text_bytes);
} tessera_plugin;

/* The only symbol that a plugin exports: TESSERA_PLUGIN_EXPORT const tessera_plugin* tessera_backend_plugin(void). */
#define TESSERA_PLUGIN_SYMBOL "tessera_backend_plugin"
typedef const tessera_plugin* (*tessera_plugin_entry)(void);

#if defined(__cplusplus)
#define TESSERA_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TESSERA_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* --- helpers for plugins */

/* Returns a parameter by name, or NULL. */
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
/* Returns a source, or NULL if it is absent. */
static inline const tessera_plugin_node* tessera_plugin_source(const tessera_plugin_node* node, uint32_t i) {
  return i < node->n_sources ? node->sources[i] : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
