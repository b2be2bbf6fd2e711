// The kernel of compress_rows (graph/ops/attention.h): its part of the table in kernels.h. Plain declarations only.
#pragma once

#include <stdint.h>

namespace tessera::cpu {

/// A stored position that counts for an entry.
struct EntryRow {
  const void* row_block;   // K block of f32
  const void* gate_block;  // V block of f32
  int slot;                // of the position in both blocks
  int64_t channel;         // of row and gate: the first one that counts
  const float* bias;       // of that channel
};

/// Some channels of an entry: the softmax over rows of gate + bias, times the rows.
struct CompressionTask {
  const EntryRow* rows;
  int64_t n_rows;   // 0: the result is 0
  int64_t row_dim;  // channels of a stored row
  int64_t n;        // channels of the result
  float* out;
};

}  // namespace tessera::cpu
