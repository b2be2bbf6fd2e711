// Residual streams (graph/ops/streams.h has the order of weights).
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

constexpr uint32_t kUpdates = 1;  // as in gpu/ops/streams.cpp
constexpr uint32_t kMaxStreams = 16, kFewStreams = 4;
constexpr uint32_t kMostElements = kMaxStreams * kMaxStreams;

/// The weights of a token. Those of old streams in new ones are a matrix: element new + n * old. Each step reads one
/// copy of it and writes the other, so one barrier per step is enough.
class StreamWeights {
 public:
  __device__ StreamWeights(const Params& step, float (&copies)[2][kMostElements], uint32_t token)
      : step_(step),
        read_(copies[0]),
        write_(copies[1]),
        n_(step.u[0]),
        eps_(float_of(step.u[2])),
        m_(floats(row_of(step.x[0], token, 0, 0))),
        y_(floats(row_of(step.y, token, 0, 0))) {}

  __device__ void write_input() {
    for (uint32_t i = lane(); i < n_; i += n_lanes()) y_[i] = sigmoid_of(product(i, 0)) + eps_;
  }
  __device__ void write_output() {
    for (uint32_t i = n_ + lane(); i < 2 * n_; i += n_lanes()) y_[i] = 2.0f * sigmoid_of(product(i, 1));
  }
  __device__ void write_matrix() {
    begin();
    divide_by_sums(true);
    for (uint32_t i = 1; i < step_.u[1]; ++i) {
      divide_by_sums(false);
      divide_by_sums(true);
    }
    for (uint32_t e = lane(); e < n_ * n_; e += n_lanes()) y_[2 * n_ + e] = read_[e];
  }

 private:
  /// Product i with the scale and bias of its part of the weights.
  __device__ float product(uint32_t i, uint32_t part) const {
    return fmaf(m_[i], floats(step_.x[2].data)[part], floats(step_.x[1].data)[i]);
  }

  /// The next copy of the matrix has the elements value(e).
  template <class Value>
  __device__ void take_step(Value value) {
    for (uint32_t e = lane(); e < n_ * n_; e += n_lanes()) write_[e] = value(e);
    float* written = write_;
    write_ = read_;
    read_ = written;
    sync_group();
  }

  /// The sum of the elements with the same new stream as e, or else of those with the same old one.
  __device__ float sum_of(uint32_t e, bool is_over_old) const {
    const uint32_t first = is_over_old ? e % n_ : e - e % n_, stride = is_over_old ? n_ : 1;
    float sum = read_[first];
    for (uint32_t i = 1; i < n_; ++i) sum += read_[first + i * stride];
    return sum;
  }

  __device__ void divide_by_sums(bool is_over_old) {
    take_step([&](uint32_t e) { return read_[e] / (sum_of(e, is_over_old) + eps_); });
  }

  /// A softmax over the new streams, plus eps.
  __device__ void begin() {
    take_step([&](uint32_t e) { return product(2 * n_ + e, 2); });
    take_step([&](uint32_t e) {
      const float* column = read_ + (e - e % n_);
      float highest = column[0];
      for (uint32_t i = 1; i < n_; ++i) highest = fmaxf(highest, column[i]);
      return expf(read_[e] - highest);
    });
    take_step([&](uint32_t e) { return read_[e] / sum_of(e, false) + eps_; });
  }

  const Params& step_;
  float *read_, *write_;
  uint32_t n_;
  float eps_;
  const float* m_;
  float* y_;
};

/// Elements of a piece of a token, for at most kMost streams, whose elements are in registers.
template <uint32_t kMost>
__device__ inline void sum_streams(const Params& step, uint32_t token, uint32_t begin, uint32_t end) {
  const uint32_t n = step.x[0].ne[1];
  const bool updates = (step.variant & kUpdates) != 0;
  const float* weights = floats(row_of(step.x[updates ? 2 : 1], token, 0, 0));
  for (uint32_t i = begin + lane(); i < end; i += n_lanes()) {
    float x[kMost];
#pragma unroll
    for (uint32_t old = 0; old < kMost; ++old) x[old] = old < n ? floats(row_of(step.x[0], old, token, 0))[i] : 0.0f;
    const auto add_streams = [&](const float* by, uint32_t stride, uint32_t first, float sum) {
#pragma unroll
      for (uint32_t old = 0; old < kMost; ++old)
        if (old >= first && old < n) sum = fmaf(by[old * stride], x[old], sum);
      return sum;
    };
    if (!updates) {
      floats(row_of(step.y, token, 0, 0))[i] = add_streams(weights, 1, 1, weights[0] * x[0]);
      continue;
    }
    const float of_block = floats(row_of(step.x[1], token, 0, 0))[i];
    for (uint32_t s = 0; s < n; ++s)
      floats(row_of(step.y, s, token, 0))[i] = add_streams(weights + 2 * n + s, n, 0, weights[n + s] * of_block);
  }
}

}  // namespace

/// stream_weights: a block per token.
///   x: products, biases, scales; u[0]: streams; u[1]: iterations; u[2]: eps as bits
TESSERA_KERNEL(streams_weights, 32) {
  __shared__ float copies[2][kMostElements];
  allow_next();
  wait_for_previous();
  const uint32_t token = group_of(step);
  if (token >= step.n_groups) return;
  StreamWeights weights(step, copies, token);
  weights.write_input();
  if (step.y.ne[0] == step.u[0]) return;
  weights.write_output();
  weights.write_matrix();
}

/// join_streams, and update_streams (bit 0 of the variant): sums of streams in their order. A block computes a piece of
/// a token.
///   x: streams, the block's output (update), weights
///   u[0]: elements of a piece
TESSERA_KERNEL(streams, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t n = step.y.ne[0], per_token = (n + step.u[0] - 1) / step.u[0], group = group_of(step);
  if (group >= step.n_groups) return;
  const uint32_t token = group / per_token, begin = group % per_token * step.u[0], end = min_of(n, begin + step.u[0]);
  if (step.x[0].ne[1] <= kFewStreams)
    sum_streams<kFewStreams>(step, token, begin, end);
  else
    sum_streams<kMaxStreams>(step, token, begin, end);
}

}  // namespace tessera::cuda
