// Elementwise operations with one or two operands. A block computes a piece of a row.
//   u[0]: elements of a piece; u[1], u[2]: two parameters as bits
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

// The variants, as in gpu/ops/elementwise.cpp.
enum : uint32_t {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) kElementwise_##name,
#include "tessera/graph/ops.def"
};

__device__ inline bool is_binary(uint32_t op) {
  switch (op) {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) \
  case kElementwise_##name:                                        \
    return n_operands == 2;
#include "tessera/graph/ops.def"
  }
  return false;
}

/// p, q: the parameters of the operation.
__device__ inline float result_of(uint32_t op, float a, float b, float p, float q) {
  switch (op) {
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
      const float positive = a < 0.0f ? 0.0f : a;
      return positive * positive;
    }
    case kElementwise_soft_cap:
      return p * tanh_of(a / p);
    case kElementwise_clamp:
      return a < p ? p : a > q ? q : a;
    case kElementwise_sqrt:
      return sqrtf(a);
    case kElementwise_swiglu:
      return silu_of(a) * b;
    case kElementwise_geglu:
      return gelu_of(a) * b;
    case kElementwise_swiglu_oai: {
      const float gate = a > 7.0f ? 7.0f : a, up = b < -7.0f ? -7.0f : b > 7.0f ? 7.0f : b;
      return gate / (1.0f + expf(-1.702f * gate)) * (up + 1.0f);
    }
    case kElementwise_softplus:
      return softplus_of(a);
    case kElementwise_exp:
      return expf(a);
    default:
      return 0.0f;
  }
}

}  // namespace

TESSERA_KERNEL(elementwise, 128) {
  wait_for_previous();
  allow_next();
  const uint32_t n = step.y.ne[0], per_row = (n + step.u[0] - 1) / step.u[0], group = group_of(step);
  if (group >= step.n_groups) return;
  const uint32_t row = group / per_row, begin = group % per_row * step.u[0], end = min_of(n, begin + step.u[0]);
  const float p = float_of(step.u[1]), q = float_of(step.u[2]);
  const float* a = floats(nth_row(step.x[0], row));
  float* y = floats(nth_row(step.y, row));
  if (!is_binary(step.variant)) {
    for (uint32_t i = begin + lane(); i < end; i += n_lanes()) y[i] = result_of(step.variant, a[i], 0.0f, p, q);
    return;
  }
  // The second operand is repeated along extents of 1.
  const Operand& second = step.x[1];
  const uint32_t i1 = row % step.y.ne[1], i2 = row / step.y.ne[1] % step.y.ne[2];
  const uint32_t i3 = row / step.y.ne[1] / step.y.ne[2];
  const float* b =
      floats(row_of(second, second.ne[1] == 1 ? 0 : i1, second.ne[2] == 1 ? 0 : i2, second.ne[3] == 1 ? 0 : i3));
  const uint32_t b_step = second.ne[0] == 1 ? 0 : 1;
  for (uint32_t i = begin + lane(); i < end; i += n_lanes()) y[i] = result_of(step.variant, a[i], b[i * b_step], p, q);
}

}  // namespace tessera::cuda
