// Residual streams (hyper-connections; Zhu et al. 2024, DeepSeek-AI 2026). The residual of a token is n_streams vectors
// instead of one. The input of a block is a weighted sum of the streams. After the block, each stream is a weighted sum
// of all streams and of the block's output. The weights depend on the token.
//
// The weights of a token are one vector of n * (n + 2) elements for n streams:
//   n:      of each stream in the block's input
//   n:      of the block's output in each new stream
//   n * n:  of each old stream in each new one; element new + n * old
#pragma once

#include <cstdint>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

inline constexpr int64_t kMaxStreams = 16;
inline constexpr int64_t kMaxStreamIterations = 1000;

struct StreamParams {
  int64_t n_streams = 0;     // at most kMaxStreams
  int64_t n_iterations = 1;  // of the division by sums; at most kMaxStreamIterations
  float eps = 0.0f;          // added to weights and divisors
  void list(ParamList& params) const {
    params.integer("n_streams", n_streams);
    params.integer("n_iterations", n_iterations);
    params.number("eps", eps);
  }
};

/// The part of GraphBuilder that adds residual streams.
class StreamOps {
 public:
  /// Weights of tokens from products m [n, t], where n is n_streams * (n_streams + 2), or n_streams if only the weights
  /// of an input are wanted. With v = m * scale + bias:
  ///   of the input: sigmoid(v) + eps; of the output: 2 sigmoid(v)
  ///   of old streams in new ones: softmax of v over the new streams, plus eps. Then each is divided by the sum over
  ///   the old streams + eps, and n_iterations - 1 times by the sum over the new streams + eps and again by the sum
  ///   over the old streams + eps (Sinkhorn and Knopp 1967)
  /// bias [n]; scale [3], or [1] if only the weights of an input are wanted. Returns [n, t].
  Value stream_weights(Value m, Value bias, Value scale, const StreamParams& params);
  /// The input of a block [n_embd, t]: the sum of streams x [n_embd, n_streams, t] times the first n_streams weights.
  Value join_streams(Value x, Value weights);
  /// The new streams [n_embd, n_streams, t] after a block with output y [n_embd, t]: y's term first, then the streams'.
  Value update_streams(Value x, Value y, Value weights);
};

}  // namespace tessera
