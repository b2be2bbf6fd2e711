// What the kernels of one instruction set offer to the rest of the CPU backend: a table of plain functions.
// cpu/dispatch picks the table at run time; cpu/ops and cpu/pack call through it. Plain declarations only: this
// header is seen by code of every instruction set (see cmake/isa.cmake).
//
// Results are the same bits for any division of rows and tokens among calls: each output element has one fixed chain of
// float operations, whatever else the call computes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tessera/cpu/kernels/experts_grad.h"
#include "tessera/cpu/kernels/loss.h"
#include "tessera/cpu/kernels/norm.h"
#include "tessera/cpu/kernels/optimizer.h"
#include "tessera/cpu/kernels/recurrent.h"
#include "tessera/cpu/kernels/recurrent_grad.h"
#include "tessera/cpu/kernels/self_attention.h"

namespace tessera::cpu {

inline constexpr int kPanelRows = 16;    // weight rows interleaved in one panel: one output per lane
inline constexpr int kBlockTokens = 64;  // tokens of one KV cache block; bit i of a mask is token i
inline constexpr int kTileTokens = 16;   // tokens interleaved in one K tile of a block

/// x [k, n_tokens] of a product, as it is packed.
struct ActivationShape {
  int64_t k;
  int64_t n_tokens;
  int64_t max_group = 128;  // of an integer kernel: the most columns that share a scale, 32, 64 or 128
};

/// Matrix multiplication y[r] = sum_k w[r][k] * x[k] for weights of one dtype (design: docs/kernels.md).
///
/// Weights lie in panels of 16 rows; panel p holds rows 16p to 16p+15, rows past the end are zero.
/// Activations of a group of tokens are packed once (for integer kernels: quantized) and used by every panel.
struct PanelFormat {
  /// Bytes of one panel of k columns (k a multiple of the dtype's block); a multiple of 64.
  size_t (*panel_bytes)(int64_t k);
  /// Packs n_rows (<= 16) rows as the file has them, row_stride bytes apart, into one panel.
  void (*pack)(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel);
  /// The exact inverse of pack().
  void (*unpack)(const void* panel, int n_rows, int64_t k, void* rows, size_t row_stride);
  /// Row `row` (0 to 15) of a panel as k floats: the dequantized values, exactly.
  void (*dequantize_row)(const void* panel, int row, int64_t k, float* out);
  /// The same values of all rows as an f32 panel, for products that read x as floats; null where multiply() does.
  void (*dequantize_panel)(const void* panel, int64_t k, float* out);

  /// Bytes of packed activations; a multiple of 64.
  size_t (*activation_bytes)(const ActivationShape& shape);
  /// Packs tokens [begin, end) of x (each k floats, x_stride bytes apart) into their place in `packed`, which holds
  /// n_tokens. begin and end are multiples of token_tile or n_tokens.
  void (*pack_activations)(const float* x, size_t x_stride, const ActivationShape& shape, int64_t begin, int64_t end,
                           void* packed);
  int token_tile;
  int64_t default_group;  // ActivationShape::max_group where nobody says otherwise

  /// out[t][row] for all n_rows rows of consecutive panels (the first at `panels`) and tokens [begin, end) of the
  /// packed activations; token t's outputs start at out + t * out_stride bytes. Bounds as pack_activations.
  void (*multiply)(const void* panels, int64_t n_rows, const ActivationShape& shape, const void* packed, int64_t begin,
                   int64_t end, float* out, size_t out_stride);
};

/// The operations on each element by itself, in the order of their rows.
enum class Elementwise {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) name,
#include "tessera/graph/ops.def"
};

/// A part of a row: out[i] = f(a[i]) or f(a[i], b[i]). `out` may be an operand.
struct ElementwiseTask {
  const float* a;
  const float* b = nullptr;       // of operations of two operands
  const float* params = nullptr;  // the operation's numbers, in the order of its parameters
  int64_t n;
  float* out;
};
using ElementwiseKernel = void (*)(const ElementwiseTask& task);

/// Distances that a row of biases covers: 128 to either side, and what a vector that begins or ends there reaches.
inline constexpr int kBiasReach = 128 + 15;

/// One row set of attention: queries of one KV head against a sequence's blocks.
struct AttentionTask {
  // Queries: row i is head_dim floats at q + q_offsets[i] (in floats); its output goes to out + out_offsets[i].
  const float* q;
  float* out;
  const int64_t* q_offsets;
  const int64_t* out_offsets;
  const int32_t* positions;  // position of each row's token
  int n_rows;                // 1 to kMaxAttentionRows
  int k_dim;                 // elements per K vector
  int v_dim;                 // elements per V vector
  // Scores and what is seen: see AttentionParams.
  float scale;
  float soft_cap;       // 0: none
  const float* slopes;  // ALiBi's slope of each row, or null
  const float* sinks;   // the sink's score of each row, or null
  // For each row the bias of a key by its distance from the query, -kBiasReach to kBiasReach; null: none.
  const float* const* biases = nullptr;
  bool causal;
  int32_t window;  // 0: none
  // The sequence: logical block b holds positions 64b to 64b+63; blocks[b] is its physical block or -1,
  // valid[b] tells which of its positions are stored.
  const int32_t* blocks;
  const uint64_t* valid;
  int first_block;  // blocks before it are not seen by any row
  int n_blocks;
  // The cache of this layer: physical block p of this KV head starts p * stride bytes after the base.
  const void* k_base;
  const void* v_base;  // null: V is the last v_dim elements of K
  size_t k_block_stride;
  size_t v_block_stride;
};

inline constexpr int kMaxAttentionRows = 256;

/// Storage of one KV cache dtype. A block of one KV head holds 64 tokens: K in four tiles of 16 tokens,
/// innermost the 16 tokens of one element (for q8_0 of four elements), so that scores come out one token per lane;
/// V token by token. Both take exactly 64 rows' bytes of the dtype.
struct KvFormat {
  /// Stores dim floats as token `slot` (0 to 63) of a K or V block.
  void (*store_k)(const float* x, int dim, int slot, void* block);
  void (*store_v)(const float* x, int dim, int slot, void* block);
  /// Token `slot` of a block as one row in the dtype's file form (state saving); load after store is exact.
  void (*load_k)(const void* block, int dim, int slot, void* row);
  void (*load_v)(const void* block, int dim, int slot, void* row);
  /// The inverse: a row in the dtype's file form becomes token `slot`.
  void (*store_k_row)(const void* row, int dim, int slot, void* block);
  void (*store_v_row)(const void* row, int dim, int slot, void* block);
};

struct Kernels {
  const char* isa;  // "scalar", "avx2", "avx512"

  // Weights: null where this dtype has no kernel. Indexed by dtype (GGUF id).
  const PanelFormat* const* panel_formats;

  const ElementwiseKernel* elementwise;  // by Elementwise
  const NormKernels* norm;
  /// Rotates n_rot elements of x by (cos, sin) pairs: adjacent pairs (2i, 2i+1), or halves (i, i + n_rot/2);
  /// elements from n_rot to n are copied.
  void (*rope_adjacent)(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);
  void (*rope_halves)(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);
  /// Rows of plain (unpacked) tensors as floats; null where the dtype has none. Indexed by dtype.
  void (*const* to_f32)(const void* row, int64_t n, float* out);
  void (*const* from_f32)(const float* x, int64_t n, void* row);

  // Recurrent layers.
  const RecurrentKernels* recurrent;

  /// out[i * out_stride + row] = x[row * x_stride + i] for n_rows rows of n; strides count floats.
  void (*transpose)(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride);

  // Training.
  const LossKernels* loss;
  const OptimizerKernels* optimizer;
  const RecurrentGradKernels* recurrent_grad;
  const ExpertsGradKernels* experts_grad;

  // Attention. Indexed by dtype; null where the cache cannot be of that dtype. K and V may differ.
  const KvFormat* const* kv_formats;
  /// softmax(scale * q K^T) V over the visible positions (valid, and <= the row's position), blocks ascending,
  /// online softmax per block of 64. A row that sees nothing gives zeros. scratch: attention_scratch_bytes.
  void (*attention)(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch);
  size_t (*attention_scratch_bytes)(int k_dim, int v_dim);
  const SelfAttentionKernels* self_attention;  // without a cache, and its gradients

  // Measured peaks: each runs its loop n times and returns the multiply-adds (or bytes) done.
  int64_t (*peak_int8)(int64_t n);
  int64_t (*peak_f32)(int64_t n);
  int64_t (*peak_bf16)(int64_t n);  // the CPU must have avx512_bf16; does nothing in sets that know no such dot product
  int64_t (*peak_read)(const void* data, size_t bytes);
};

}  // namespace tessera::cpu
