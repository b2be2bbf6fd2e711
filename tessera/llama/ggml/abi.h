// The types of ggml.h, gguf.h and ggml-backend.h that consumers of libllama pass to a ggml library, as they lie in
// memory on 64-bit machines. They are the same in all versions since May 2026. Enumerations are plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/llama/abi.h"

struct ggml_context;
struct ggml_backend_device;
struct ggml_backend_reg;
struct ggml_backend_buffer_type;

extern "C" {

/// A tensor as programs see it. Only type, ne, nb, data and name are ever set here.
struct ggml_tensor {
  int32_t type;
  void* buffer;
  int64_t ne[4];  // extents, innermost first
  size_t nb[4];   // bytes between neighbours; of blocks, for dimension 0
  int32_t op;
  int32_t op_params[16];
  int32_t flags;
  ggml_tensor* src[10];
  ggml_tensor* view_src;
  size_t view_offs;
  void* data;
  char name[64];
  void* extra;
  char padding[8];
};

struct gguf_init_params {
  bool no_alloc;       // tensors without data
  ggml_context** ctx;  // if not null, receives the tensors of the file
};

struct ggml_bf16_t {
  uint16_t bits;
};

struct ggml_backend_dev_props {
  const char* name;
  const char* description;
  size_t memory_free;
  size_t memory_total;
  int32_t type;
  const char* device_id;  // null: unknown
  bool caps[8];           // asynchronous, host buffers, buffers from pointers, events and later ones
};

}  // extern "C"

static_assert(sizeof(ggml_tensor) == 336 && offsetof(ggml_tensor, ne) == 16 && offsetof(ggml_tensor, nb) == 48 &&
              offsetof(ggml_tensor, src) == 152 && offsetof(ggml_tensor, data) == 248 &&
              offsetof(ggml_tensor, name) == 256);
static_assert(sizeof(gguf_init_params) == 16 && sizeof(ggml_bf16_t) == 2);
static_assert(sizeof(ggml_backend_dev_props) == 56 && offsetof(ggml_backend_dev_props, memory_total) == 24 &&
              offsetof(ggml_backend_dev_props, type) == 32 && offsetof(ggml_backend_dev_props, caps) == 48);
