// Kernels of residual streams (graph/ops/streams.h): their part of the table in kernels.h. Plain declarations only.
#pragma once

#include <stdint.h>

namespace tessera::cpu {

/// The maximum number of streams: the weights of all streams in one sum are one vector.
inline constexpr int kStreams = 16;

/// The weights of one token.
struct StreamWeightsTask {
  const float* m;
  const float* bias;
  const float* scale;
  int n_streams;         // 1 to kStreams
  bool is_input;         // only the weights of an input are wanted
  int64_t n_iterations;  // at least 1
  float eps;
  float* out;
};

/// A part of the streams of one token: n elements of each.
struct StreamsTask {
  const float* x;    // the first stream
  int64_t x_stride;  // from one stream to the next, in floats
  const float* weights;
  int n_streams;             // 1 to kStreams
  const float* y = nullptr;  // update: the block's output
  int64_t n;
  float* out;
  int64_t out_stride = 0;  // update: from one new stream to the next, in floats
};

struct StreamKernels {
  void (*weights)(const StreamWeightsTask& task);
  /// out = the weighted sum of the streams. The first one is multiplied, the others are added by fma in their order.
  void (*join)(const StreamsTask& task);
  /// The new streams. The block's output is multiplied, then the old streams are added by fma in their order.
  void (*update)(const StreamsTask& task);
};

}  // namespace tessera::cpu
