// Weights and sums of residual streams. A lane is one stream in the weights, and one channel in the sums of streams.
#include "tessera/cpu/kernels/streams.h"

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

static_assert(kStreams == kLanes);

/// The sum of the first n lanes in their order.
inline float sum_of_lanes(F32x16 v, int n) {
  alignas(64) float lanes[kLanes];
  v.store(lanes);
  float sum = lanes[0];
  for (int i = 1; i < n; ++i) sum += lanes[i];
  return sum;
}

/// Softmax of the first n lanes.
inline F32x16 soft_max_of_lanes(F32x16 v, int n) {
  const float highest = reduce_max(select_first(n, v, F32x16::broadcast(-__builtin_inff())));
  const F32x16 e = exp(sub(v, F32x16::broadcast(highest)));
  return div(e, F32x16::broadcast(sum_of_lanes(e, n)));
}

// In these two, c[old] has the weights of an old stream in all new ones.
inline void divide_by_sums_of_old(F32x16* c, int n, F32x16 eps) {
  F32x16 sum = c[0];
  for (int old = 1; old < n; ++old) sum = add(sum, c[old]);
  sum = add(sum, eps);
  for (int old = 0; old < n; ++old) c[old] = div(c[old], sum);
}
inline void divide_by_sums_of_new(F32x16* c, int n, float eps) {
  for (int old = 0; old < n; ++old) c[old] = div(c[old], F32x16::broadcast(sum_of_lanes(c[old], n) + eps));
}

void weights_of_streams(const StreamWeightsTask& t) {
  const int n = t.n_streams;
  const F32x16 eps = F32x16::broadcast(t.eps);
  const auto product = [&](int64_t begin, int part) {
    return fma(load_up_to(t.m + begin, n), F32x16::broadcast(t.scale[part]), load_up_to(t.bias + begin, n));
  };
  store_up_to(add(sigmoid(product(0, 0)), eps), t.out, n);
  if (t.is_input) return;
  const F32x16 half = sigmoid(product(n, 1));
  store_up_to(add(half, half), t.out + n, n);

  const int64_t begin = int64_t{2} * n;
  F32x16 c[kStreams];
  for (int old = 0; old < n; ++old) c[old] = add(soft_max_of_lanes(product(begin + old * n, 2), n), eps);
  divide_by_sums_of_old(c, n, eps);
  for (int64_t i = 1; i < t.n_iterations; ++i) {
    divide_by_sums_of_new(c, n, t.eps);
    divide_by_sums_of_old(c, n, eps);
  }
  for (int old = 0; old < n; ++old) store_up_to(c[old], t.out + begin + old * n, n);
}

void join(const StreamsTask& t) {
  for_vectors(t.n, [&t](int64_t i, int count) {
    F32x16 sum = mul(F32x16::broadcast(t.weights[0]), load_up_to(t.x + i, count));
    for (int s = 1; s < t.n_streams; ++s)
      sum = fma(F32x16::broadcast(t.weights[s]), load_up_to(t.x + s * t.x_stride + i, count), sum);
    store_up_to(sum, t.out + i, count);
  });
}

void update(const StreamsTask& t) {
  const int n = t.n_streams;
  const float *of_output = t.weights + n, *of_old = of_output + n;
  for_vectors(t.n, [&](int64_t i, int count) {
    F32x16 x[kStreams];
    for (int old = 0; old < n; ++old) x[old] = load_up_to(t.x + old * t.x_stride + i, count);
    const F32x16 y = load_up_to(t.y + i, count);
    for (int s = 0; s < n; ++s) {
      F32x16 sum = mul(F32x16::broadcast(of_output[s]), y);
      for (int old = 0; old < n; ++old) sum = fma(F32x16::broadcast(of_old[old * n + s]), x[old], sum);
      store_up_to(sum, t.out + s * t.out_stride + i, count);
    }
  });
}

}  // namespace

const StreamKernels kStreamKernels = {.weights = weights_of_streams, .join = join, .update = update};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
