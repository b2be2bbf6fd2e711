// The kernels of one instruction set as a table of plain functions, used by the rest of the CPU backend. cpu/dispatch
// chooses the table at run time; cpu/ops and cpu/buffers call through it. The header contains only plain declarations
// because it is compiled for every instruction set (see cmake/isa.cmake).
//
// Results have the same bits for any division of rows and tokens among calls: each output element has one fixed chain
// of float operations, independent of the other elements of the call.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tessera/cpu/kernels/attention_compression.h"
#include "tessera/cpu/kernels/experts_grad.h"
#include "tessera/cpu/kernels/loss.h"
#include "tessera/cpu/kernels/norm.h"
#include "tessera/cpu/kernels/optimizer.h"
#include "tessera/cpu/kernels/recurrent.h"
#include "tessera/cpu/kernels/recurrent_grad.h"
#include "tessera/cpu/kernels/self_attention.h"
#include "tessera/cpu/kernels/streams.h"

namespace tessera::cpu {

inline constexpr int kPanelRows = 16;    // weight rows interleaved in one panel: one output per lane
inline constexpr int kBlockTokens = 64;  // tokens per KV cache block; bit i of a mask is token i
inline constexpr int kTileTokens = 16;   // tokens interleaved in one K tile of a block

/// The sizes of a product's x [k, n_tokens] for packing.
struct ActivationShape {
  int64_t k;
  int64_t n_tokens;
  int64_t max_group = 128;  // for integer kernels: at most this many columns share a scale; 32, 64 or 128
};

/// Matrix multiplication y[r] = sum_k w[r][k] * x[k] for weights of one dtype (design: docs/kernels.md).
///
/// Weights are stored in panels of 16 rows. Panel p holds rows 16p to 16p+15; rows past the end are zero.
/// Activations of a group of tokens are packed once (for integer kernels: quantized) and used by every panel.
struct PanelFormat {
  /// Bytes of one panel of k columns (k a multiple of the dtype's block); a multiple of 64.
  size_t (*panel_bytes)(int64_t k);
  /// Packs n_rows (<= 16) rows in file layout, row_stride bytes apart, into one panel.
  void (*pack)(const void* rows, size_t row_stride, int n_rows, int64_t k, void* panel);
  /// The exact inverse of pack().
  void (*unpack)(const void* panel, int n_rows, int64_t k, void* rows, size_t row_stride);
  /// Writes row `row` (0 to 15) of a panel as k floats: exactly the dequantized values.
  void (*dequantize_row)(const void* panel, int row, int64_t k, float* out);
  /// Converts a panel to an f32 panel, for products with float activations. Null if multiply() reads floats itself.
  void (*dequantize_panel)(const void* panel, int64_t k, float* out);

  /// Bytes of packed activations; a multiple of 64.
  size_t (*activation_bytes)(const ActivationShape& shape);
  /// Packs tokens [begin, end) of x (k floats each, x_stride bytes apart) into their part of `packed`, which holds
  /// n_tokens. begin and end are multiples of token_tile or equal n_tokens.
  void (*pack_activations)(const float* x, size_t x_stride, const ActivationShape& shape, int64_t begin, int64_t end,
                           void* packed);
  int token_tile;
  int64_t default_group;  // default of ActivationShape::max_group

  /// Computes out[t][row] for all n_rows rows of consecutive panels (the first at `panels`) and tokens [begin, end) of
  /// the packed activations. Token t's outputs start at out + t * out_stride bytes. Bounds as in pack_activations.
  void (*multiply)(const void* panels, int64_t n_rows, const ActivationShape& shape, const void* packed, int64_t begin,
                   int64_t end, float* out, size_t out_stride);
};

/// The elementwise operations, in the order of their rows in graph/ops.def.
enum class Elementwise {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) name,
#include "tessera/graph/ops.def"
};

/// A part of a row: out[i] = f(a[i]) or f(a[i], b[i]). `out` may be an operand.
struct ElementwiseTask {
  const float* a;
  const float* b = nullptr;       // for operations with two operands
  const float* params = nullptr;  // values of the operation's parameters, in their order
  int64_t n;
  float* out;
};
using ElementwiseKernel = void (*)(const ElementwiseTask& task);

/// Largest distance in a row of biases: 128 to either side, plus the length of a vector that begins or ends there.
inline constexpr int kBiasReach = 128 + 15;

/// A task of attention: a set of query rows of one KV head against a sequence's blocks.
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
  // Scores and masks: see AttentionParams.
  float scale;
  float soft_cap;       // 0: none
  const float* slopes;  // ALiBi's slope of each row, or null
  const float* sinks;   // the sink's score of each row, or null
  // For each row, the biases of keys by distance from the query, -kBiasReach to kBiasReach; null: none.
  const float* const* biases = nullptr;
  bool causal;
  int32_t window;             // 0: none
  bool chunked = false;       // chunks of `window` positions
  bool int16 = false;         // scores from 16-bit integers; softmax weights and V rounded to bf16
  bool has_bf16_dot = false;  // the CPU has bf16 dot products; the bits of the results do not depend on it
  // For each row, the masks of the positions that it may attend to, by logical block; null: all positions.
  const uint64_t* const* chosen = nullptr;
  // The sequence: logical block b holds positions 64b to 64b+63. blocks[b] is its physical block or -1. valid[b] is the
  // mask of its stored positions.
  const int32_t* blocks;
  const uint64_t* valid;
  int first_block;  // no row attends to earlier blocks
  int n_blocks;
  // The cache of this layer: physical block p of this KV head starts p * stride bytes after the base.
  const void* k_base;
  const void* v_base;  // null: V is the last v_dim elements of K
  size_t k_block_stride;
  size_t v_block_stride;
};

inline constexpr int kMaxAttentionRows = 256;

/// Scores of the keys of one block, for choose_keys.
struct KeyScoresTask {
  const float* const* q;  // n_rows queries of `dim` floats
  int n_rows;             // 1 to kMaxAttentionRows
  int dim;
  const float* weights;  // of each row; null: every row has scores of its own
  int n_summed;          // with weights: the scores of this many rows are clamped to >= 0, weighted and summed
  const void* block;     // a K block of one head
  uint64_t tokens;       // other tokens have unspecified scores
  float* out;            // 64 scores per row, or per sum of rows
  int64_t out_stride;    // in floats
};

/// Storage of one KV cache dtype. A block of one KV head holds 64 tokens. K is stored in four tiles of 16 tokens, in
/// which the 16 tokens of one element (for q8_0: of four elements) are adjacent, so that each lane computes the score
/// of one token. V is stored token by token. Both have exactly the size of 64 rows of the dtype.
struct KvFormat {
  /// Stores dim floats as token `slot` (0 to 63) of a K or V block.
  void (*store_k)(const float* x, int dim, int slot, void* block);
  void (*store_v)(const float* x, int dim, int slot, void* block);
  /// Copies token `slot` of a block to one row in the dtype's file layout (to save states). A load after a store is
  /// exact.
  void (*load_k)(const void* block, int dim, int slot, void* row);
  void (*load_v)(const void* block, int dim, int slot, void* row);
  /// The inverse: stores a row in the dtype's file layout as token `slot`.
  void (*store_k_row)(const void* row, int dim, int slot, void* block);
  void (*store_v_row)(const void* row, int dim, int slot, void* block);
};

struct Kernels {
  const char* isa;  // "scalar", "avx2", "avxvnni", "avx512"

  // Weights: null where this dtype has no kernel. Indexed by dtype (GGUF id).
  const PanelFormat* const* panel_formats;
  /// Products of the same panels and activations as 16-bit integers; null where there is no such kernel.
  const PanelFormat* const* int16_panel_formats;

  const ElementwiseKernel* elementwise;  // indexed by Elementwise
  const NormKernels* norm;
  /// Rotate n_rot elements of x by (cos, sin) pairs: adjacent pairs (2i, 2i+1), or halves (i, i + n_rot/2). Elements
  /// from n_rot to n are copied.
  void (*rope_adjacent)(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);
  void (*rope_halves)(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out);
  /// Convert rows of unpacked tensors to and from floats. Indexed by dtype; null for dtypes without a kernel.
  void (*const* to_f32)(const void* row, int64_t n, float* out);
  void (*const* from_f32)(const float* x, int64_t n, void* row);

  // Recurrent layers.
  const RecurrentKernels* recurrent;
  // Residual streams.
  const StreamKernels* streams;

  /// out[i * out_stride + row] = x[row * x_stride + i] for n_rows rows of n; strides are in floats.
  void (*transpose)(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride);

  // Training.
  const LossKernels* loss;
  const OptimizerKernels* optimizer;
  const RecurrentGradKernels* recurrent_grad;
  const ExpertsGradKernels* experts_grad;

  // Attention. Indexed by dtype; null if the cache cannot have this dtype. K and V may differ.
  const KvFormat* const* kv_formats;
  /// softmax(scale * q K^T) V over the visible positions (valid, and within the causal mask and the window), blocks
  /// ascending, with an online softmax per block of 64. A row without visible positions gives zeros. scratch has
  /// attention_scratch_bytes() bytes.
  void (*attention)(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch);
  size_t (*attention_scratch_bytes)(int k_dim, int v_dim);
  /// q K^T, or its weighted sums. scratch has 64 * dim floats.
  void (*key_scores)(const KeyScoresTask& task, int k_dtype, void* scratch);
  void (*compress_rows)(const CompressionTask& task);
  const SelfAttentionKernels* self_attention;  // attention without a cache, and its gradients

  // Peak measurements: each runs its loop n times and returns the number of multiply-adds (or bytes).
  int64_t (*peak_int8)(int64_t n);
  int64_t (*peak_f32)(int64_t n);
  int64_t (*peak_int16)(int64_t n);
  int64_t (*peak_read)(const void* data, size_t bytes);
};

}  // namespace tessera::cpu
