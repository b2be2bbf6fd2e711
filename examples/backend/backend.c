/* An example backend with two devices. Both compute on the CPU, one operation after another (ops.c).
 *   example:0   works in the memory of the host: weights are used in the mapped file
 *   example:1   has memory that the host cannot address, like a graphics card: all data is copied in and out
 * EXAMPLE_MEMORY=BYTES limits the memory of each device. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "example.h"

enum { kDevices = 2, kAlignment = 64 };

typedef struct device {
  uint32_t flags;
  uint64_t total_bytes;
  _Atomic uint64_t used_bytes;
} device;

typedef struct buffer {
  char* data;
  uint64_t bytes;
} buffer;

typedef struct plan {
  step* steps;
  uint32_t n_steps;
} plan;

static int32_t refuse(int32_t code, const char* why, char* text, size_t text_bytes) {
  snprintf(text, text_bytes, "%s", why);
  return code;
}

static int32_t score(void) {
#ifdef __AVX2__
  return __builtin_cpu_supports("avx2") ? 20 : 0;
#else
  return 10;
#endif
}

/* --- devices */

static uint32_t device_count(void) { return kDevices; }

static int32_t device_open(uint32_t index, void** opened, char* text, size_t text_bytes) {
  device* made = calloc(1, sizeof *made);
  if (made == NULL) return refuse(TESSERA_PLUGIN_OUT_OF_MEMORY, "no memory for a device", text, text_bytes);
  made->flags = index == 0 ? TESSERA_PLUGIN_HOST_MEMORY : 0;
  made->total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  const char* limit = getenv("EXAMPLE_MEMORY");
  if (limit != NULL) made->total_bytes = strtoull(limit, NULL, 10);
  *opened = made;
  return TESSERA_PLUGIN_OK;
}

static void device_close(void* opened) { free(opened); }

static const tessera_plugin_device_info* device_info(void* opened) {
  static const tessera_plugin_property kProperties[] = {{"threads", "1"}};
  static const tessera_plugin_device_info kShared = {
      .size = sizeof(tessera_plugin_device_info),
      .kind = TESSERA_PLUGIN_ACCELERATOR,
      .flags = TESSERA_PLUGIN_HOST_MEMORY,
      .n_properties = 1,
      .properties = kProperties,
      .description = "example in the host's memory",
      .alignment = kAlignment,
      .max_buffer_bytes = (uint64_t)1 << 40,
  };
  static const tessera_plugin_device_info kOwn = {
      .size = sizeof(tessera_plugin_device_info),
      .kind = TESSERA_PLUGIN_ACCELERATOR,
      .flags = 0,
      .n_properties = 1,
      .properties = kProperties,
      .description = "example with memory of its own",
      .alignment = kAlignment,
      .max_buffer_bytes = (uint64_t)1 << 40,
  };
  return ((const device*)opened)->flags != 0 ? &kShared : &kOwn;
}

static void device_memory(void* opened, uint64_t* total_bytes, uint64_t* free_bytes) {
  const device* on = opened;
  const uint64_t used = atomic_load(&on->used_bytes);
  *total_bytes = on->total_bytes;
  *free_bytes = used < on->total_bytes ? on->total_bytes - used : 0;
}

/* --- buffers */

static int32_t buffer_alloc(void* opened, uint64_t bytes, int32_t usage, void** allocated, char* text,
                            size_t text_bytes) {
  (void)usage;
  device* on = opened;
  buffer* made = NULL;
  if (atomic_fetch_add(&on->used_bytes, bytes) + bytes <= on->total_bytes) made = calloc(1, sizeof *made);
  if (made != NULL) {
    const uint64_t padded = (bytes / kAlignment + 1) * kAlignment; /* a buffer of 0 bytes has an address too */
    made->bytes = bytes;
    made->data = aligned_alloc(kAlignment, padded);
    if (made->data != NULL) {
      memset(made->data, 0, padded);
      *allocated = made;
      return TESSERA_PLUGIN_OK;
    }
    free(made);
  }
  atomic_fetch_sub(&on->used_bytes, bytes);
  snprintf(text, text_bytes, "no memory for %llu bytes", (unsigned long long)bytes);
  return TESSERA_PLUGIN_OUT_OF_MEMORY;
}

static void buffer_free(void* opened, void* allocated) {
  device* on = opened;
  buffer* old = allocated;
  atomic_fetch_sub(&on->used_bytes, old->bytes);
  free(old->data);
  free(old);
}

static void* buffer_base(void* opened, void* allocated) {
  return ((const device*)opened)->flags != 0 ? ((const buffer*)allocated)->data : NULL;
}

static int32_t buffer_set(void* opened, void* allocated, uint64_t offset, const void* bytes, uint64_t n, char* text,
                          size_t text_bytes) {
  (void)opened, (void)text, (void)text_bytes;
  if (n != 0) memcpy(((buffer*)allocated)->data + offset, bytes, n);
  return TESSERA_PLUGIN_OK;
}

static int32_t buffer_get(void* opened, void* allocated, uint64_t offset, void* bytes, uint64_t n, char* text,
                          size_t text_bytes) {
  (void)opened, (void)text, (void)text_bytes;
  if (n != 0) memcpy(bytes, ((const buffer*)allocated)->data + offset, n);
  return TESSERA_PLUGIN_OK;
}

static int32_t buffer_clear(void* opened, void* allocated, uint8_t value, char* text, size_t text_bytes) {
  (void)opened, (void)text, (void)text_bytes;
  memset(((buffer*)allocated)->data, value, ((buffer*)allocated)->bytes);
  return TESSERA_PLUGIN_OK;
}

/* --- capabilities */

static int32_t supports(void* opened, const tessera_plugin_node* node) {
  (void)opened;
  return find_operation(node) != NULL;
}

static int32_t supports_kv(void* opened, int32_t dtype, int32_t v, int64_t dim) {
  (void)opened, (void)v, (void)dim;
  return dtype == TESSERA_PLUGIN_F32;
}

/* --- backends: they have no state of their own, so a backend is its device */

static int32_t backend_open(void* opened, const tessera_plugin_backend_options* options, void** backend, char* text,
                            size_t text_bytes) {
  (void)options, (void)text, (void)text_bytes;
  *backend = opened;
  return TESSERA_PLUGIN_OK;
}

static void backend_close(void* backend) { (void)backend; }

static int32_t work_bytes(void* backend, const tessera_plugin_graph* graph, uint64_t* bytes, char* text,
                          size_t text_bytes) {
  (void)backend, (void)text, (void)text_bytes;
  uint64_t most = 0;
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    const operation* found = find_operation(graph->nodes[i]);
    const uint64_t floats = found == NULL || found->work == NULL ? 0 : found->work(graph->nodes[i]);
    if (floats > most) most = floats;
  }
  *bytes = most * sizeof(float);
  return TESSERA_PLUGIN_OK;
}

static char* address_of(const tessera_plugin_binding* binding) {
  if (binding->address != NULL) return binding->address;
  return binding->buffer == NULL ? NULL : ((const buffer*)binding->buffer)->data + binding->offset;
}

static operand operand_of(const tessera_plugin_node* node, const tessera_plugin_compile_args* args) {
  operand made = {node, NULL};
  if (node != NULL) made.data = address_of(&args->bindings[node->index]);
  return made;
}

static void plan_free(void* backend, void* compiled) {
  (void)backend;
  free(((plan*)compiled)->steps);
  free(compiled);
}

static int32_t compile(void* backend, const tessera_plugin_compile_args* args, void** compiled, char* text,
                       size_t text_bytes) {
  const tessera_plugin_graph* graph = args->graph;
  plan* made = calloc(1, sizeof *made);
  if (made == NULL) return refuse(TESSERA_PLUGIN_OUT_OF_MEMORY, "no memory for a plan", text, text_bytes);
  made->steps = calloc((size_t)graph->n_nodes + 1, sizeof *made->steps);
  if (made->steps == NULL) {
    plan_free(backend, made);
    return refuse(TESSERA_PLUGIN_OUT_OF_MEMORY, "no memory for a plan's steps", text, text_bytes);
  }
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    const tessera_plugin_node* node = graph->nodes[i];
    const operation* found = find_operation(node); /* leaves and views have nothing to run */
    if (found == NULL) continue;
    step* next = &made->steps[made->n_steps++];
    next->operation = found;
    next->out = operand_of(node, args);
    next->work = (float*)(void*)address_of(&args->work);
    for (uint32_t j = 0; j < node->n_sources; ++j) next->in[j] = operand_of(node->sources[j], args);
  }
  *compiled = made;
  return TESSERA_PLUGIN_OK;
}

static int32_t run(void* backend, void* compiled, const tessera_plugin_run_args* args, char* text, size_t text_bytes) {
  (void)backend;
  const plan* running = compiled;
  for (uint32_t i = 0; i < running->n_steps; ++i) {
    const step* next = &running->steps[i];
    if (args->cancelled(args->context)) return refuse(TESSERA_PLUGIN_CANCELLED, "cancelled", text, text_bytes);
    if (args->begins != NULL) args->begins(args->context, next->out.node->index);
    const int32_t code = next->operation->run(next, text, text_bytes);
    if (code != TESSERA_PLUGIN_OK) return code;
  }
  return TESSERA_PLUGIN_OK;
}

TESSERA_PLUGIN_EXPORT const tessera_plugin* tessera_backend_plugin(void) {
  static const tessera_plugin kPlugin = {
      .size = sizeof(tessera_plugin),
      .major = TESSERA_PLUGIN_MAJOR,
      .minor = TESSERA_PLUGIN_MINOR,
      .name = "example",
      .variant = EXAMPLE_VARIANT,
      .version = "1.0",
      .score = score,
      .device_count = device_count,
      .device_open = device_open,
      .device_close = device_close,
      .device_info = device_info,
      .device_memory = device_memory,
      .tensor_bytes = NULL, /* as in files */
      .buffer_alloc = buffer_alloc,
      .buffer_free = buffer_free,
      .buffer_base = buffer_base,
      .buffer_set = buffer_set,
      .buffer_get = buffer_get,
      .buffer_clear = buffer_clear,
      .supports = supports,
      .supports_kv = supports_kv,
      .backend_open = backend_open,
      .backend_close = backend_close,
      .work_bytes = work_bytes,
      .compile = compile,
      .plan_free = plan_free,
      .run = run,
  };
  return &kPlugin;
}
