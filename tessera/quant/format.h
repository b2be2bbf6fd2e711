// The functions of a storage format of weights: plain declarations, compiled for every instruction set
// (cmake/isa.cmake).
//
// dequantize_row() defines the meaning of a format's bytes. The encoders produce the same bytes on every instruction
// set and for every division of rows among threads: each call encodes one row, and its sums have one fixed order.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera::quant {

/// A block with a value that is not finite, and the name of the field that causes it ("scale is not finite").
struct BlockFault {
  int64_t block;  // for types without blocks the element; -1: no fault
  const char* what;
};

/// The first three functions are null if the type is not a format of weights.
struct Format {
  /// Decodes a row of n elements (whole blocks), exactly as the format defines each value in f32. Any bytes are a row.
  void (*dequantize_row)(const void* row, int64_t n, float* out);

  /// Encodes n floats (whole blocks) into a row, by a search for the least sum_j weights[j] * (x[j] - value[j])^2.
  /// Weights are positive and finite; null: all are 1. Any bit pattern of x is accepted; finite x gives finite values.
  void (*quantize_row)(const float* x, const float* weights, int64_t n, void* row);

  /// Encodes as ggml does, by its rule or its search. importance: q_j >= 0 of each column, used as in ggml; null: no
  /// imatrix. Formats without a search get the same bytes as from ggml. In a search, the order of sums may differ.
  void (*quantize_row_compat)(const float* x, const float* importance, int64_t n, void* row);

  /// The first of n blocks with a value that is not finite. Any bytes are valid blocks. Null if any bytes are finite.
  BlockFault (*first_fault)(const void* blocks, int64_t n);
};

}  // namespace tessera::quant
