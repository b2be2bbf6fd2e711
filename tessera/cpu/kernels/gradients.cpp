// Kernels of training. Elements have one chain of float operations whatever their place in a row; sums over a row run
// in 64 striped partials and one fixed tree, as in elementwise.cpp.
#include "tessera/cpu/kernels/gradients.h"

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

/// The sum over n elements of what step(accumulator, i, count) adds for `count` of them from i on. Vector v goes to
/// accumulator v % 4.
template <class Step>
inline float four_way_sum(int64_t n, Step step) {
  F32x16 acc[4] = {F32x16::zero(), F32x16::zero(), F32x16::zero(), F32x16::zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int a = 0; a < 4; ++a) acc[a] = step(acc[a], i + a * kLanes, kLanes);
  for (int a = 0; i < n; ++a, i += kLanes) acc[a] = step(acc[a], i, lanes_left(n, i));
  return reduce_add(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
}

inline float sum_of_products(const float* a, const float* b, int64_t n) {
  return four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    return fma(load_up_to(a + i, count), load_up_to(b + i, count), acc);
  });
}

/// s and 1 - s for s = sigmoid(z), neither by subtraction. Below -87 e^-z has no bounds; there s is 0 beside anything.
struct Sigmoid {
  F32x16 s, rest;
};
inline Sigmoid sigmoid(F32x16 z) {
  const F32x16 one = F32x16::broadcast(1.0f);
  const F32x16 e = exp(sub(F32x16::zero(), max(F32x16::broadcast(-87.0f), z)));
  const F32x16 s = div(one, add(one, e));
  return {s, mul(e, s)};
}

/// dy, or dy * weight: the gradient of a norm's rows before its weight.
inline F32x16 weighted(const float* dy, const float* weight, int64_t i, int count) {
  const F32x16 d = load_up_to(dy + i, count);
  return weight == nullptr ? d : mul(d, load_up_to(weight + i, count));
}

}  // namespace

// s (1 + x (1 - s))
void silu_grad_row(const float* x, const float* dy, int64_t n, float* out) {
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 v = load_up_to(x + i, count);
    const auto [s, rest] = sigmoid(v);
    const F32x16 slope = mul(s, fma(max(F32x16::broadcast(-87.0f), v), rest, F32x16::broadcast(1.0f)));
    store_up_to(mul(load_up_to(dy + i, count), slope), out + i, count);
  });
}

// gelu is x sigmoid(z) with z = a x + b x^3, so its slope is s (1 + x (a + 3 b x^2) (1 - s)); beyond 20 that is 0 or 1.
void gelu_grad_row(const float* x, const float* dy, int64_t n, float* out) {
  const F32x16 one = F32x16::broadcast(1.0f), a = F32x16::broadcast(1.5957691216f);
  const F32x16 limit = F32x16::broadcast(20.0f), lowest = F32x16::broadcast(-20.0f);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 v = min(limit, max(lowest, load_up_to(x + i, count))), square = mul(v, v);
    const auto [s, rest] = sigmoid(mul(v, fma(square, F32x16::broadcast(7.1354816e-2f), a)));
    const F32x16 slope_of_z = fma(square, F32x16::broadcast(3 * 7.1354816e-2f), a);
    const F32x16 slope = mul(s, fma(mul(v, slope_of_z), rest, one));
    store_up_to(mul(load_up_to(dy + i, count), slope), out + i, count);
  });
}

void clamp_grad_row(const float* x, const float* dy, float lowest, float highest, int64_t n, float* out) {
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 v = load_up_to(x + i, count);
    const auto within =
        static_cast<uint16_t>(at_least(v, F32x16::broadcast(lowest)) & at_least(F32x16::broadcast(highest), v));
    store_up_to(select_mask(within, load_up_to(dy + i, count), F32x16::zero()), out + i, count);
  });
}

// y (dy - sum(y dy))
void soft_max_grad_row(const float* y, const float* dy, int64_t n, float* out) {
  const F32x16 mean = F32x16::broadcast(sum_of_products(y, dy, n));
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(load_up_to(y + i, count), sub(load_up_to(dy + i, count), mean)), out + i, count);
  });
}

// With r = 1 / sqrt(mean(x^2) + eps) and g = dy * weight: r (g - x r^2 mean(g x)).
void rms_norm_grad_row(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out) {
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

// The same of x less its mean, and less the mean of g.
void layer_norm_grad_row(const float* x, const float* weight, const float* dy, int64_t n, float eps, float* out) {
  if (n <= 0) return;
  const auto count_all = static_cast<float>(n);
  const float sum =
      four_way_sum(n, [=](F32x16 acc, int64_t i, int count) { return add(acc, load_up_to(x + i, count)); });
  const F32x16 mean = F32x16::broadcast(sum / count_all);
  const auto centered = [=](int64_t i, int count) {
    const F32x16 difference = sub(load_up_to(x + i, count), mean);
    return count == kLanes ? difference : select_first(count, difference, F32x16::zero());
  };
  const float squares = four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    const F32x16 v = centered(i, count);
    return fma(v, v, acc);
  });
  const float r = 1.0f / __builtin_sqrtf(squares / count_all + eps);
  const float sum_g =
      four_way_sum(n, [=](F32x16 acc, int64_t i, int count) { return add(acc, weighted(dy, weight, i, count)); });
  const float dot = four_way_sum(n, [=](F32x16 acc, int64_t i, int count) {
    return fma(weighted(dy, weight, i, count), centered(i, count), acc);
  });
  const F32x16 factor = F32x16::broadcast(r), pull = F32x16::broadcast(-r * r * (dot / count_all));
  const F32x16 mean_g = F32x16::broadcast(sum_g / count_all);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 g = sub(weighted(dy, weight, i, count), mean_g);
    store_up_to(mul(factor, fma(centered(i, count), pull, g)), out + i, count);
  });
}

// With r = 1 / |x|: r (dy - x r^2 sum(x dy)); where eps takes the place of |x|, dy / eps.
void l2_norm_grad_row(const float* x, const float* dy, int64_t n, float eps, float* out) {
  const float norm = __builtin_sqrtf(striped_sum(n, [=](int64_t i, int count) {
    const F32x16 v = load_up_to(x + i, count);
    return mul(v, v);
  }));
  const bool is_bounded = norm < eps;
  const float r = 1.0f / (is_bounded ? eps : norm);
  const F32x16 factor = F32x16::broadcast(r);
  const F32x16 pull = F32x16::broadcast(is_bounded ? 0.0f : -r * r * sum_of_products(x, dy, n));
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(factor, fma(load_up_to(x + i, count), pull, load_up_to(dy + i, count))), out + i, count);
  });
}

// Pieces of a vocabulary are summed in double, so that its length costs no digits.
ExpSums exp_sums(const float* x, int64_t n, int64_t target) {
  constexpr int64_t kPiece = 1024;
  const F32x16 lowest = F32x16::broadcast(-__builtin_inff());
  F32x16 highest = lowest;
  for_vectors(n, [&](int64_t i, int count) {
    highest = max(highest,
                  count == kLanes ? load_up_to(x + i, count) : select_first(count, load_up_to(x + i, count), lowest));
  });
  ExpSums sums = {reduce_max(highest), 0.0, 0.0f};
  const F32x16 offset = F32x16::broadcast(sums.largest);
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = n - begin < kPiece ? n : begin + kPiece;
    sums.others += static_cast<double>(four_way_sum(end - begin, [&](F32x16 acc, int64_t i, int count) {
      const int64_t at = begin + i;
      F32x16 power = exp(sub(load_up_to(x + at, count), offset));
      if (count < kLanes) power = select_first(count, power, F32x16::zero());
      if (target >= at && target < at + count) {
        float lanes[kLanes];
        power.store(lanes);
        sums.target = lanes[target - at];
        lanes[target - at] = 0.0f;
        power = F32x16::load(lanes);
      }
      return add(acc, power);
    }));
  }
  return sums;
}

void scaled_exp_row(const float* x, float largest, float factor, int64_t n, float* out) {
  const F32x16 offset = F32x16::broadcast(largest), scale = F32x16::broadcast(factor);
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(exp(sub(load_up_to(x + i, count), offset)), scale), out + i, count);
  });
}

void momentum_row(float* m, const float* g, float beta, float scale, int64_t n) {
  const F32x16 b = F32x16::broadcast(beta), s = F32x16::broadcast(scale);
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(add(mul(b, load_up_to(m + i, count)), mul(s, load_up_to(g + i, count))), m + i, count);
  });
}

void adam_row(float* m, float* v, const float* g, const AdamNumbers& numbers, int64_t n, float* out) {
  const F32x16 scale = F32x16::broadcast(numbers.gradient_scale), epsilon = F32x16::broadcast(numbers.epsilon);
  const F32x16 beta1 = F32x16::broadcast(numbers.beta1), rest1 = F32x16::broadcast(1.0f - numbers.beta1);
  const F32x16 beta2 = F32x16::broadcast(numbers.beta2), rest2 = F32x16::broadcast(1.0f - numbers.beta2);
  const F32x16 correction1 = F32x16::broadcast(1.0f / numbers.correction1);
  const F32x16 correction2 = F32x16::broadcast(1.0f / numbers.correction2);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 d = mul(scale, load_up_to(g + i, count));
    const F32x16 first = add(mul(beta1, load_up_to(m + i, count)), mul(rest1, d));
    const F32x16 second = add(mul(beta2, load_up_to(v + i, count)), mul(rest2, mul(d, d)));
    store_up_to(first, m + i, count);
    store_up_to(second, v + i, count);
    const F32x16 size = add(sqrt(mul(second, correction2)), epsilon);
    store_up_to(div(mul(first, correction1), size), out + i, count);
  });
}

void descend_row(float* w, const float* direction, float rate, float decay, int64_t n) {
  const F32x16 step = F32x16::broadcast(-rate), keep = F32x16::broadcast(decay);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 old = load_up_to(w + i, count);
    store_up_to(fma(step, fma(keep, old, load_up_to(direction + i, count)), old), w + i, count);
  });
}

void transpose_rows(const float* x, int64_t x_stride, int64_t n, int64_t n_rows, float* out, int64_t out_stride) {
  for (int64_t row = 0; row < n_rows; row += kLanes) {
    const int rows = lanes_left(n_rows, row);
    for (int64_t i = 0; i < n; i += kLanes) {
      const int columns = lanes_left(n, i);
      F32x16 tile[kLanes];
      for (int r = 0; r < rows; ++r) tile[r] = load_up_to(x + (row + r) * x_stride + i, columns);
      for (int r = rows; r < kLanes; ++r) tile[r] = F32x16::zero();
      transpose(tile);
      for (int c = 0; c < columns; ++c) store_up_to(tile[c], out + (i + c) * out_stride + row, rows);
    }
  }
}

constexpr GradientKernels kGradientKernels = {
    .silu_grad = silu_grad_row,
    .gelu_grad = gelu_grad_row,
    .clamp_grad = clamp_grad_row,
    .soft_max_grad = soft_max_grad_row,
    .rms_norm_grad = rms_norm_grad_row,
    .layer_norm_grad = layer_norm_grad_row,
    .l2_norm_grad = l2_norm_grad_row,
    .exp_sums = exp_sums,
    .scaled_exp = scaled_exp_row,
    .momentum = momentum_row,
    .adam = adam_row,
    .descend = descend_row,
    .transpose = transpose_rows,
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
