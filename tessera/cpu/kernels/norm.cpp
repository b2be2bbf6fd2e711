// Kernels of the operations on whole rows: norms, softmax, sums, and their gradients.
//
// Sums use 64 striped partial sums (row_sum and l2_norm: 16), added by a fixed tree. So the bits of a row's result
// depend only on the row.
#include "tessera/cpu/kernels/norm.h"

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

inline float sum_of_products(const float* a, const float* b, int64_t n) {
  return four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    return fma(load_up_to(a + i, count), load_up_to(b + i, count), acc);
  });
}

/// Sum of x.
inline float sum_of(const float* x, int64_t n) {
  return four_way_sum(n, [=](F32x16 acc, int64_t i, int count) { return add(acc, load_up_to(x + i, count)); });
}
inline F32x16 centered(const float* x, F32x16 mean, int64_t i, int count) {
  const F32x16 difference = sub(load_up_to(x + i, count), mean);
  return count == kLanes ? difference : select_first(count, difference, F32x16::zero());
}
inline float sum_of_squared_differences(const float* x, F32x16 mean, int64_t n) {
  return four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    const F32x16 v = centered(x, mean, i, count);
    return fma(v, v, acc);
  });
}

inline float euclidean_norm(const float* x, int64_t n) {
  return __builtin_sqrtf(striped_sum(n, [=](int64_t i, int count) {
    const F32x16 v = load_up_to(x + i, count);
    return mul(v, v);
  }));
}

/// dy, or dy * weight: the gradient with respect to the normalized row before the multiplication by the weight.
inline F32x16 weighted(const float* dy, const float* weight, int64_t i, int count) {
  const F32x16 d = load_up_to(dy + i, count);
  return weight == nullptr ? d : mul(d, load_up_to(weight + i, count));
}

void soft_max(const float* x, int64_t n, float* out) {
  const float highest = max_of(x, n);
  if (highest == -__builtin_inff()) {  // all elements are masked
    for_vectors(n, [=](int64_t i, int count) { store_up_to(F32x16::zero(), out + i, count); });
    return;
  }
  const F32x16 offset = F32x16::broadcast(highest);
  for_vectors(n,
              [=](int64_t i, int count) { store_up_to(exp(sub(load_up_to(x + i, count), offset)), out + i, count); });
  const F32x16 sum =
      F32x16::broadcast(striped_sum(n, [=](int64_t i, int count) { return load_up_to(out + i, count); }));
  for_vectors(n, [=](int64_t i, int count) { store_up_to(div(load_up_to(out + i, count), sum), out + i, count); });
}

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const float mean = sum_of_products(x, x, n) / static_cast<float>(n);
  const F32x16 factor = F32x16::broadcast(1.0f / __builtin_sqrtf(mean + eps));
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 normal = mul(load_up_to(x + i, count), factor);
    store_up_to(weight == nullptr ? normal : mul(normal, load_up_to(weight + i, count)), out + i, count);
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const F32x16 mean = F32x16::broadcast(sum_of(x, n) / static_cast<float>(n));
  const float variance = sum_of_squared_differences(x, mean, n) / static_cast<float>(n);
  const F32x16 factor = F32x16::broadcast(1.0f / __builtin_sqrtf(variance + eps));
  const F32x16 one = F32x16::broadcast(1.0f), zero = F32x16::zero();
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 normal = mul(sub(load_up_to(x + i, count), mean), factor);
    const F32x16 w = weight == nullptr ? one : load_up_to(weight + i, count);
    const F32x16 b = bias == nullptr ? zero : load_up_to(bias + i, count);
    store_up_to(fma(normal, w, b), out + i, count);
  });
}

void l2_norm(const float* x, int64_t n, float eps, float* out) {
  const float norm = euclidean_norm(x, n);
  const F32x16 factor = F32x16::broadcast(1.0f / (norm < eps ? eps : norm));
  for_vectors(n, [=](int64_t i, int count) { store_up_to(mul(load_up_to(x + i, count), factor), out + i, count); });
}

float row_sum(const float* x, int64_t n) {
  return striped_sum(n, [=](int64_t i, int count) { return load_up_to(x + i, count); });
}

// y (dy - sum(y dy))
void soft_max_grad(const float* y, const float* dy, int64_t n, float* out) {
  const F32x16 mean = F32x16::broadcast(sum_of_products(y, dy, n));
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(load_up_to(y + i, count), sub(load_up_to(dy + i, count), mean)), out + i, count);
  });
}

// With r = 1 / sqrt(mean(x^2) + eps) and g = dy * weight: r (g - x r^2 mean(g x)).
void rms_norm_grad(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const auto count_all = static_cast<float>(n);
  const float r = 1.0f / __builtin_sqrtf(sum_of_products(x, x, n) / count_all + eps);
  const float dot = four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    return fma(weighted(dy, weight, i, count), load_up_to(x + i, count), acc);
  });
  const F32x16 factor = F32x16::broadcast(r), pull = F32x16::broadcast(-r * r * (dot / count_all));
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 g = weighted(dy, weight, i, count);
    store_up_to(mul(factor, fma(load_up_to(x + i, count), pull, g)), out + i, count);
  });
}

// As rms_norm_grad() for x minus its mean, and minus the mean of g.
void layer_norm_grad(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const auto count_all = static_cast<float>(n);
  const F32x16 mean = F32x16::broadcast(sum_of(x, n) / count_all);
  const float r = 1.0f / __builtin_sqrtf(sum_of_squared_differences(x, mean, n) / count_all + eps);
  const float sum_g =
      four_way_sum(n, [=](F32x16 acc, int64_t i, int count) { return add(acc, weighted(dy, weight, i, count)); });
  const float dot = four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    return fma(weighted(dy, weight, i, count), centered(x, mean, i, count), acc);
  });
  const F32x16 factor = F32x16::broadcast(r), pull = F32x16::broadcast(-r * r * (dot / count_all));
  const F32x16 mean_g = F32x16::broadcast(sum_g / count_all);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 g = sub(weighted(dy, weight, i, count), mean_g);
    store_up_to(mul(factor, fma(centered(x, mean, i, count), pull, g)), out + i, count);
  });
}

// With r = 1 / |x|: r (dy - x r^2 sum(x dy)). If eps replaces |x|: dy / eps.
void l2_norm_grad(const float* x, const float* dy, int64_t n, float eps, float* out) {
  const float norm = euclidean_norm(x, n);
  const bool is_bounded = norm < eps;
  const float r = 1.0f / (is_bounded ? eps : norm);
  const F32x16 factor = F32x16::broadcast(r);
  const F32x16 pull = F32x16::broadcast(is_bounded ? 0.0f : -r * r * sum_of_products(x, dy, n));
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(factor, fma(load_up_to(x + i, count), pull, load_up_to(dy + i, count))), out + i, count);
  });
}

}  // namespace

const NormKernels kNormKernels = {
    .soft_max = soft_max,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .l2_norm = l2_norm,
    .row_sum = row_sum,
    .soft_max_grad = soft_max_grad,
    .rms_norm_grad = rms_norm_grad,
    .layer_norm_grad = layer_norm_grad,
    .l2_norm_grad = l2_norm_grad,
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
