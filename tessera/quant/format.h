// What a storage format of weights offers: plain declarations, seen by code of every instruction set (cmake/isa.cmake).
//
// A format's bytes are defined by dequantize_row(). The encoders give the same bytes on every instruction set and for
// every division of rows among threads: each works on one row, and its sums run in one fixed order.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::quant {

/// A block that holds a value which is not finite, and which of its fields is not ("scale is not finite").
struct BlockFault {
  int64_t block;  // an element, for types without blocks; -1: there is none
  const char* what;
};

/// The first three are null where the type is no format of weights.
struct Format {
  /// Decodes a row of n elements (whole blocks), exactly as the format defines each value in f32. Any bytes are a row.
  void (*dequantize_row)(const void* row, int64_t n, float* out);

  /// Encodes n floats (whole blocks) into a row by the search of least sum_j weights[j] * (x[j] - value[j])^2. Weights
  /// are positive and finite; null means 1 everywhere. Any bit pattern of x is accepted; finite x gives finite values.
  void (*quantize_row)(const float* x, const float* weights, int64_t n, void* row);

  /// Encodes as ggml does: by its rule, or its search, with its use of the importance q_j >= 0 of each column (null: no
  /// imatrix). The same bytes as ggml for formats without a search; elsewhere sums may run in another order than there.
  void (*quantize_row_compat)(const float* x, const float* importance, int64_t n, void* row);

  /// The first of n blocks that is not finite. Any bytes are blocks. Null where any bytes are finite.
  BlockFault (*first_fault)(const void* blocks, int64_t n);
};

}  // namespace tessera::quant
