// Element-wise work on rows of floats: norms, products, activations, softmax, rope. cpu/ops calls these
// through the table, any number of rows per thread.
//
// An element's bits depend only on its inputs: the rest of a row after whole vectors goes through the same
// vector operations with partial loads, and sums run in 64 striped partials and one fixed tree.
#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

/// out[i] = op(i, load), where load(row) gives the lanes of `row` that op works on.
template <class Op>
inline void for_each_vector(int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) op([i](const float* row) { return F32x16::load(row + i); }).store(out + i);
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    op([i, rest](const float* row) { return F32x16::load_partial(row + i, rest); }).store_partial(out + i, rest);
  }
}

/// 1 + e^-x: what sigmoid divides by.
inline F32x16 one_plus_exp_minus(F32x16 x) { return add(F32x16::broadcast(1.0f), exp(sub(F32x16::zero(), x))); }

inline F32x16 silu(F32x16 x) { return div(x, one_plus_exp_minus(x)); }

/// x / 2 * (1 + tanh(u)) is x * sigmoid(2 u), which cancels nothing.
inline F32x16 gelu(F32x16 x) {
  const F32x16 square = mul(x, x);
  // 2 sqrt(2 / pi) (1 + 0.044715 x^2)
  const F32x16 slope = fma(square, F32x16::broadcast(7.1354816e-2f), F32x16::broadcast(1.5957691216f));
  // Beyond 1e18 the square is infinite, and -inf / inf no number; there the result is x or 0 already at 20.
  const F32x16 bounded = max(F32x16::broadcast(-20.0f), x);
  return div(bounded, one_plus_exp_minus(mul(bounded, slope)));
}

/// Sum over i of step(accumulator, 16 floats at i): four striped accumulators hide the latency; vector i goes to
/// accumulator i % 4 whatever n is. step(acc, v, n) uses the first n lanes of v.
template <class Step>
inline float four_way_sum(const float* x, int64_t n, Step step) {
  F32x16 acc[4] = {F32x16::zero(), F32x16::zero(), F32x16::zero(), F32x16::zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int a = 0; a < 4; ++a) acc[a] = step(acc[a], F32x16::load(x + i + a * kLanes), kLanes);
  }
  for (int a = 0; i < n; ++a, i += kLanes) {
    const int count = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    acc[a] = step(acc[a], F32x16::load_partial(x + i, count), count);
  }
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

float sum_of_squares(const float* x, int64_t n) {
  return four_way_sum(x, n, [](F32x16 acc, F32x16 v, int) { return fma(v, v, acc); });
}

float sum_of(const float* x, int64_t n) {
  return four_way_sum(x, n, [](F32x16 acc, F32x16 v, int) { return add(acc, v); });
}

/// Sum of (x - mean)^2.
float sum_of_squared_differences(const float* x, F32x16 mean, int64_t n) {
  return four_way_sum(x, n, [=](F32x16 acc, F32x16 v, int count) {
    const F32x16 difference = sub(v, mean);
    const F32x16 counted = count == kLanes ? difference : select_first(count, difference, F32x16::zero());
    return fma(counted, counted, acc);
  });
}

float max_of(const float* x, int64_t n) {
  const F32x16 lowest = F32x16::broadcast(-__builtin_inff());
  F32x16 m = lowest;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = max(m, F32x16::load(x + i));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) m = max(m, select_first(rest, F32x16::load_partial(x + i, rest), lowest));
  return reduce_max(m);
}

struct Pairs {
  F32x16 first, second;
};

/// `count` (even, <= 32) floats as pairs of neighbours, 0 past them.
Pairs load_pairs(const float* x, int count) {
  float both[2 * kLanes] = {}, first[kLanes], second[kLanes];
  memcpy(both, x, sizeof(float) * static_cast<size_t>(count));
  for (int i = 0; i < kLanes; ++i) {
    first[i] = both[2 * i];
    second[i] = both[2 * i + 1];
  }
  return {F32x16::load(first), F32x16::load(second)};
}

}  // namespace

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const F32x16 factor = F32x16::broadcast(1.0f / __builtin_sqrtf(mean + eps));
  if (weight == nullptr) {
    for_each_vector(n, out, [=](auto load) { return mul(load(x), factor); });
  } else {
    for_each_vector(n, out, [=](auto load) { return mul(mul(load(x), factor), load(weight)); });
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const F32x16 mean = F32x16::broadcast(sum_of(x, n) / static_cast<float>(n));
  const float variance = sum_of_squared_differences(x, mean, n) / static_cast<float>(n);
  const F32x16 factor = F32x16::broadcast(1.0f / __builtin_sqrtf(variance + eps));
  const F32x16 one = F32x16::broadcast(1.0f), zero = F32x16::zero();
  for_each_vector(n, out, [=](auto load) {
    const F32x16 normal = mul(sub(load(x), mean), factor);
    const F32x16 w = weight == nullptr ? one : load(weight), b = bias == nullptr ? zero : load(bias);
    return fma(normal, w, b);
  });
}

void add_rows(const float* a, const float* b, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return add(load(a), load(b)); });
}

void mul_rows(const float* a, const float* b, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return mul(load(a), load(b)); });
}

void div_rows(const float* a, const float* b, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return div(load(a), load(b)); });
}

void scale_row(const float* x, float factor, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return mul(load(x), F32x16::broadcast(factor)); });
}

void silu_row(const float* x, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return silu(load(x)); });
}

void sigmoid_row(const float* x, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return div(F32x16::broadcast(1.0f), one_plus_exp_minus(load(x))); });
}

void gelu_row(const float* x, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return gelu(load(x)); });
}

void relu_squared_row(const float* x, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) {
    const F32x16 positive = max(F32x16::zero(), load(x));
    return mul(positive, positive);
  });
}

void soft_cap_row(const float* x, float cap, int64_t n, float* out) {
  const F32x16 c = F32x16::broadcast(cap);
  for_each_vector(n, out, [=](auto load) { return mul(c, tanh(div(load(x), c))); });
}

// Of max and min the second operand is what NaN comes from.
void clamp_row(const float* x, float lowest, float highest, int64_t n, float* out) {
  for_each_vector(n, out,
                  [=](auto load) { return min(F32x16::broadcast(highest), max(F32x16::broadcast(lowest), load(x))); });
}

void swiglu_row(const float* gate, const float* up, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return mul(silu(load(gate)), load(up)); });
}

void geglu_row(const float* gate, const float* up, int64_t n, float* out) {
  for_each_vector(n, out, [=](auto load) { return mul(gelu(load(gate)), load(up)); });
}

void swiglu_oai_row(const float* gate, const float* up, int64_t n, float* out) {
  const F32x16 limit = F32x16::broadcast(7.0f), lowest = F32x16::broadcast(-7.0f);
  for_each_vector(n, out, [=](auto load) {
    const F32x16 g = min(limit, load(gate)), u = min(limit, max(lowest, load(up)));
    const F32x16 activated = div(g, one_plus_exp_minus(mul(g, F32x16::broadcast(1.702f))));
    return mul(activated, add(u, F32x16::broadcast(1.0f)));
  });
}

void softmax_row(const float* x, int64_t n, float* out) {
  const float highest = max_of(x, n);
  if (highest == -__builtin_inff()) {  // nothing to choose from
    for_each_vector(n, out, [](auto) { return F32x16::zero(); });
    return;
  }
  const F32x16 offset = F32x16::broadcast(highest);
  for_each_vector(n, out, [=](auto load) { return exp(sub(load(x), offset)); });
  const float sum = striped_sum(n, [out](int64_t i, int count) {
    return count == kLanes ? F32x16::load(out + i) : F32x16::load_partial(out + i, count);
  });
  for_each_vector(n, out, [=](auto load) { return div(load(out), F32x16::broadcast(sum)); });
}

// Rope's products are F32x16 operations on separate lanes: GCC 12 turns a scalar a * c - b * s, a * s + b * c over
// interleaved pairs into vfmaddsub even with -ffp-contract=off, and sets would differ.

void rope_adjacent(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out) {
  // a c - b s as a c + b (-s), which is the same bits: then both lanes of a pair add.
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i) signs[i] = i % 2 == 0 ? -1.0f : 1.0f;
  const F32x16 sign = F32x16::load(signs);
  for (int64_t begin = 0; begin < n_rot; begin += kLanes) {
    const auto count = static_cast<int>(n_rot - begin < kLanes ? n_rot - begin : kLanes);
    const F32x16 v = F32x16::load_partial(x + begin, count), t = F32x16::load_partial(cos_sin + begin, count);
    const F32x16 rotated = add(mul(v, even_of_pairs(t)), mul(swap_pairs(v), mul(odd_of_pairs(t), sign)));
    rotated.store_partial(out + begin, count);
  }
  if (n > n_rot) memmove(out + n_rot, x + n_rot, sizeof(float) * static_cast<size_t>(n - n_rot));
}

void rope_halves(const float* x, const float* cos_sin, int64_t n_rot, int64_t n, float* out) {
  const int64_t half = n_rot / 2;
  for (int64_t begin = 0; begin < half; begin += kLanes) {
    const auto count = static_cast<int>(half - begin < kLanes ? half - begin : kLanes);
    const auto [c, s] = load_pairs(cos_sin + 2 * begin, 2 * count);
    const F32x16 a = F32x16::load_partial(x + begin, count), b = F32x16::load_partial(x + half + begin, count);
    sub(mul(a, c), mul(b, s)).store_partial(out + begin, count);
    add(mul(a, s), mul(b, c)).store_partial(out + half + begin, count);
  }
  if (n > n_rot) memmove(out + n_rot, x + n_rot, sizeof(float) * static_cast<size_t>(n - n_rot));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
