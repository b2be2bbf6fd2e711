#version 460
#extension GL_GOOGLE_include_directive : require
// Elementwise operations with one or two operands. A workgroup computes a piece of a row.
//   u[0]: elements of a piece; u[1] to u[4]: parameters as bits
#include "step.glsl"
#include "math.glsl"
#include "ops.glsl"  // generated from graph/ops.def by cmake/shaders.cmake

float result_of(float a, float b) {
  const float p = uintBitsToFloat(step.u[1]), q = uintBitsToFloat(step.u[2]);
  switch (kVariant) {
    case kElementwise_add:
      return a + b;
    case kElementwise_mul:
      return a * b;
    case kElementwise_div:
      return a / b;
    case kElementwise_scale:
      return a * p;
    case kElementwise_silu:
      return silu_of(a);
    case kElementwise_sigmoid:
      return sigmoid_of(a);
    case kElementwise_gelu:
      return gelu_of(a);
    case kElementwise_relu_squared: {
      const float positive = isnan(a) ? a : max(a, 0.0);
      return positive * positive;
    }
    case kElementwise_soft_cap:
      return p * tanh_of(a / p);
    case kElementwise_clamp:
      return isnan(a) ? a : min(max(a, p), q);
    case kElementwise_sqrt:
      return sqrt(a);
    case kElementwise_swiglu:
      return silu_of(a) * b;
    case kElementwise_geglu:
      return gelu_of(a) * b;
    case kElementwise_swiglu_oai: {
      if (isnan(a) || isnan(b)) return a + b;
      const float gate = min(a, 7.0), up = clamp(b, -7.0, 7.0);
      return gate / (1.0 + exp(-1.702 * gate)) * (up + 1.0);
    }
    case kElementwise_softplus:
      return softplus_of(a);
    case kElementwise_exp:
      return exp(a);
    case kElementwise_xielu: {
      const float linear = uintBitsToFloat(step.u[3]), bound = uintBitsToFloat(step.u[4]);
      if (isnan(a) || a > 0.0) return a * fma(p, a, linear);
      return fma(q, expm1_of(min(a, bound)), (linear - q) * a);
    }
    default:
      return 0.0;
  }
}

void main() {
  const uint n = step.y.ne[0], per_row = (n + step.u[0] - 1u) / step.u[0], group = group_index();
  if (group >= step.n_groups) return;
  const uint row = group / per_row, begin = group % per_row * step.u[0], end = min(n, begin + step.u[0]);
  Floats a = Floats(nth_row(step.x[0], row)), y = Floats(nth_row(step.y, row));
  if (!is_binary(kVariant)) {
    for (uint i = begin + lane(); i < end; i += n_lanes()) y.at[i] = result_of(a.at[i], 0.0);
    return;
  }
  // The second operand is repeated along extents of 1.
  const Operand second = step.x[1];
  const uint i1 = row % step.y.ne[1], i2 = row / step.y.ne[1] % step.y.ne[2], i3 = row / step.y.ne[1] / step.y.ne[2];
  Floats b = Floats(
      row_of(second, second.ne[1] == 1u ? 0u : i1, second.ne[2] == 1u ? 0u : i2, second.ne[3] == 1u ? 0u : i3));
  const uint b_step = second.ne[0] == 1u ? 0u : 1u;
  for (uint i = begin + lane(); i < end; i += n_lanes()) y.at[i] = result_of(a.at[i], b.at[i * b_step]);
}
