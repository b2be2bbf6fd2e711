// Kernels of the elementwise operations: one function for each TESSERA_ELEMENTWISE row of graph/ops.def.
//
// An element's bits depend only on its inputs: the remainder of a row after whole vectors is computed by the same
// vector operations.
#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

/// out = f(a) or f(a, b), one vector at a time.
template <class F>
inline void for_each(const ElementwiseTask& t, F f) {
  for_vectors(t.n, [&t, f](int64_t i, int count) { store_up_to(f(load_up_to(t.a + i, count)), t.out + i, count); });
}
template <class F>
inline void for_each_pair(const ElementwiseTask& t, F f) {
  for_vectors(t.n, [&t, f](int64_t i, int count) {
    store_up_to(f(load_up_to(t.a + i, count), load_up_to(t.b + i, count)), t.out + i, count);
  });
}

inline F32x16 silu(F32x16 x) { return div(x, one_plus_exp_minus(x)); }

/// x / 2 * (1 + tanh(u)), computed as x * sigmoid(2 u) to avoid cancellation.
inline F32x16 gelu(F32x16 x) {
  const F32x16 square = mul(x, x);
  // 2 sqrt(2 / pi) (1 + 0.044715 x^2)
  const F32x16 slope = fma(square, F32x16::broadcast(7.1354816e-2f), F32x16::broadcast(1.5957691216f));
  // The square overflows beyond 1e18, and -inf / inf would be NaN. From -20 down the result is 0 anyway.
  const F32x16 bounded = max(F32x16::broadcast(-20.0f), x);
  return div(bounded, one_plus_exp_minus(mul(bounded, slope)));
}

/// ln(1 + u) for 0 <= u <= 1: 2 artanh(z) with z = u / (2 + u) <= 1/3. The first omitted term is below 2^-26 of the
/// sum.
inline F32x16 log1p_of_unit(F32x16 u) {
  const F32x16 z = div(u, add(u, F32x16::broadcast(2.0f))), square = mul(z, z);
  F32x16 p = F32x16::broadcast(1.0f / 15);
  p = fma(p, square, F32x16::broadcast(1.0f / 13));
  p = fma(p, square, F32x16::broadcast(1.0f / 11));
  p = fma(p, square, F32x16::broadcast(1.0f / 9));
  p = fma(p, square, F32x16::broadcast(1.0f / 7));
  p = fma(p, square, F32x16::broadcast(1.0f / 5));
  p = fma(p, square, F32x16::broadcast(1.0f / 3));
  p = fma(p, square, F32x16::broadcast(1.0f));
  return mul(add(z, z), p);
}

/// max(x, 0) + ln(1 + e^-|x|), which does not overflow for any x.
inline F32x16 softplus(F32x16 x) {
  const F32x16 rest = log1p_of_unit(exp(sub(F32x16::zero(), abs(x))));
  return add(max(F32x16::zero(), x), rest);  // rest propagates a NaN in x
}

/// e^x - 1 for x <= 0: (2^n - 1) + 2^n (r + p r^2), which has no cancellation near 0. Below -30 it is -1.
inline F32x16 expm1_nonpositive(F32x16 x) {
  const F32x16 one = F32x16::broadcast(1.0f), bounded = max(F32x16::broadcast(-30.0f), x);
  const auto [n, r, p] = exp_terms(bounded);
  const F32x16 power = exp_finish(bounded, one, n);
  return fma(power, fma(p, mul(r, r), r), sub(power, one));
}

/// s and 1 - s for s = sigmoid(z), both without subtraction. z is bounded at -87, where s is negligible, because e^-z
/// would overflow below.
struct SigmoidParts {
  F32x16 s, rest;
};
inline SigmoidParts sigmoid_parts(F32x16 z) {
  const F32x16 one = F32x16::broadcast(1.0f);
  const F32x16 e = exp(sub(F32x16::zero(), max(F32x16::broadcast(-87.0f), z)));
  const F32x16 s = div(one, add(one, e));
  return {s, mul(e, s)};
}

void add_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 a, F32x16 b) { return add(a, b); });
}

void mul_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 a, F32x16 b) { return mul(a, b); });
}

void div_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 a, F32x16 b) { return div(a, b); });
}

void scale_row(const ElementwiseTask& t) {
  const F32x16 factor = F32x16::broadcast(t.params[0]);
  for_each(t, [=](F32x16 x) { return mul(x, factor); });
}

void silu_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return silu(x); });
}

void sigmoid_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return sigmoid(x); });
}

void gelu_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return gelu(x); });
}

void relu_squared_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) {
    const F32x16 positive = max(F32x16::zero(), x);
    return mul(positive, positive);
  });
}

void soft_cap_row(const ElementwiseTask& t) {
  const F32x16 cap = F32x16::broadcast(t.params[0]);
  for_each(t, [=](F32x16 x) { return mul(cap, tanh(div(x, cap))); });
}

// max and min propagate a NaN from their second operand.
void clamp_row(const ElementwiseTask& t) {
  const F32x16 lowest = F32x16::broadcast(t.params[0]), highest = F32x16::broadcast(t.params[1]);
  for_each(t, [=](F32x16 x) { return min(highest, max(lowest, x)); });
}

void sqrt_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return sqrt(x); });
}

void softplus_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return softplus(x); });
}

void exp_row(const ElementwiseTask& t) {
  for_each(t, [](F32x16 x) { return exp(x); });
}

// The negative side is exponential (e^x - 1) + (linear - exponential) x, which does not subtract infinities.
void xielu_row(const ElementwiseTask& t) {
  const F32x16 square = F32x16::broadcast(t.params[0]), exponential = F32x16::broadcast(t.params[1]);
  const F32x16 linear = F32x16::broadcast(t.params[2]), bound = F32x16::broadcast(t.params[3]);
  const F32x16 slope = sub(linear, exponential);
  for_each(t, [=](F32x16 x) {
    const auto is_negative = static_cast<uint16_t>(at_least(F32x16::zero(), x));
    const F32x16 negative = fma(exponential, expm1_nonpositive(min(bound, x)), mul(slope, x));
    return select_mask(is_negative, negative, mul(x, fma(square, x, linear)));
  });
}

void swiglu_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 gate, F32x16 up) { return mul(silu(gate), up); });
}

void geglu_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 gate, F32x16 up) { return mul(gelu(gate), up); });
}

void swiglu_oai_row(const ElementwiseTask& t) {
  const F32x16 limit = F32x16::broadcast(7.0f), lowest = F32x16::broadcast(-7.0f);
  for_each_pair(t, [=](F32x16 gate, F32x16 up) {
    const F32x16 g = min(limit, gate), u = min(limit, max(lowest, up));
    const F32x16 activated = div(g, one_plus_exp_minus(mul(g, F32x16::broadcast(1.702f))));
    return mul(activated, add(u, F32x16::broadcast(1.0f)));
  });
}

// The derivative of silu with s = sigmoid(x): s (1 + x (1 - s)).
void silu_grad_row(const ElementwiseTask& t) {
  for_each_pair(t, [](F32x16 x, F32x16 dy) {
    const auto [s, rest] = sigmoid_parts(x);
    return mul(dy, mul(s, fma(max(F32x16::broadcast(-87.0f), x), rest, F32x16::broadcast(1.0f))));
  });
}

// gelu is x sigmoid(z) with z = a x + b x^3. Its derivative is s (1 + x (a + 3 b x^2) (1 - s)), which is 0 or 1 beyond
// 20.
void gelu_grad_row(const ElementwiseTask& t) {
  const F32x16 one = F32x16::broadcast(1.0f), a = F32x16::broadcast(1.5957691216f);
  const F32x16 limit = F32x16::broadcast(20.0f), lowest = F32x16::broadcast(-20.0f);
  for_each_pair(t, [=](F32x16 x, F32x16 dy) {
    const F32x16 v = min(limit, max(lowest, x)), square = mul(v, v);
    const auto [s, rest] = sigmoid_parts(mul(v, fma(square, F32x16::broadcast(7.1354816e-2f), a)));
    const F32x16 slope_of_z = fma(square, F32x16::broadcast(3 * 7.1354816e-2f), a);
    return mul(dy, mul(s, fma(mul(v, slope_of_z), rest, one)));
  });
}

void clamp_grad_row(const ElementwiseTask& t) {
  const F32x16 lowest = F32x16::broadcast(t.params[0]), highest = F32x16::broadcast(t.params[1]);
  for_each_pair(t, [=](F32x16 x, F32x16 dy) {
    const auto within = static_cast<uint16_t>(at_least(x, lowest) & at_least(highest, x));
    return select_mask(within, dy, F32x16::zero());
  });
}

}  // namespace

const ElementwiseKernel kElementwiseKernels[] = {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) name##_row,
#include "tessera/graph/ops.def"
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
