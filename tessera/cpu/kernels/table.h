// The parts of one instruction set's Kernels table, each defined by the kernel source of its name;
// table.cpp gathers them. Seen only by kernel sources.
#pragma once

#include "tessera/cpu/kernels/kernels.h"
#include "tessera/tensor/dtype_rows.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// Indexed by GGUF type id.
template <class T>
struct ByDType {
  T of_dtype[kDTypeLimit] = {};
};

// matmul_<format>.cpp, which cmake/formats.cmake writes where blocks have several elements
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) extern const PanelFormat kPanel##symbol;
#include "tessera/tensor/dtype.def"

// One of each operation family's name
extern const ElementwiseKernel kElementwiseKernels[];
extern const NormKernels kNormKernels;
extern const RecurrentKernels kRecurrentKernels;
extern const RecurrentGradKernels kRecurrentGradKernels;
extern const ExpertsGradKernels kExpertsGradKernels;
extern const LossKernels kLossKernels;
extern const OptimizerKernels kOptimizerKernels;

// rope.cpp
void rope_adjacent(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);
void rope_halves(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);

// shape.cpp
void transpose_rows(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride);

// rows.cpp: rows of plain tensors to and from floats
extern const ByDType<void (*)(const void* row, int64_t n, float* out)> kToF32;
extern const ByDType<void (*)(const float* x, int64_t n, void* row)> kFromF32;

// kv.cpp, attention.cpp
extern const ByDType<const KvFormat*> kKvFormats;
void attention(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch);
size_t attention_scratch_bytes(int k_dim, int v_dim);
extern const SelfAttentionKernels kSelfAttentionKernels;  // self_attention.cpp

// peak.cpp
int64_t peak_int8(int64_t n);
int64_t peak_f32(int64_t n);
int64_t peak_bf16(int64_t n);
int64_t peak_read(const void* data, size_t bytes);

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
