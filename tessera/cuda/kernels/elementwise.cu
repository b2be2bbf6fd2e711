// Elementwise operations with one or two operands. A block computes a piece of a row.
//   u[0]: elements of a piece; u[1] to u[4]: parameters as bits
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

// The variants, as in gpu/ops/elementwise.cpp.
enum : uint32_t {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) kElementwise_##name,
#include "tessera/graph/ops.def"
};

/// p: the parameters of the operation.
template <uint32_t kOp>
__device__ inline float result_of(float a, float b, const float (&p)[4]) {
  switch (kOp) {
    case kElementwise_add:
      return a + b;
    case kElementwise_mul:
      return a * b;
    case kElementwise_div:
      return a / b;
    case kElementwise_scale:
      return a * p[0];
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
      return p[0] * tanh_of(a / p[0]);
    case kElementwise_clamp:
      return a < p[0] ? p[0] : a > p[1] ? p[1] : a;
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
    case kElementwise_xielu:
      if (!(a <= 0.0f)) return a * fmaf(p[0], a, p[2]);
      return fmaf(p[1], expm1_of(a < p[3] ? a : p[3]), (p[2] - p[1]) * a);
    default:
      return 0.0f;
  }
}

/// The elements of a block: at most two pieces of 16 bytes per thread.
struct Piece {
  uint64_t a, b, y;
  uint32_t n;
  bool is_repeated;  // b is one element
  float params[4];
};
constexpr uint32_t kPieces = 2;

template <uint32_t kOp, bool kIsBinary>
__device__ inline void compute(const Piece& piece) {
  const float *a = floats(piece.a), *b = floats(piece.b);
  float* y = floats(piece.y);
  const bool has_wide_b = kIsBinary && !piece.is_repeated;
  const uint32_t n_wide = is_wide(piece.a | piece.y | (has_wide_b ? piece.b : 0)) ? piece.n / 4 * 4 : 0;
  // All loads come before the first store: the compiler cannot know that they differ.
  for (uint32_t begin = 0; begin < n_wide; begin += 4 * kPieces * n_lanes()) {
    Float4 va[kPieces], vb[kPieces];
#pragma unroll
    for (uint32_t k = 0; k < kPieces; ++k) {
      const uint32_t i = begin + 4 * (lane() + k * n_lanes());
      if (i >= n_wide) continue;
      va[k] = float4_at(piece.a + 4 * uint64_t{i});
      if (has_wide_b) vb[k] = float4_at(piece.b + 4 * uint64_t{i});
      if (kIsBinary && !has_wide_b) vb[k] = {b[0], b[0], b[0], b[0]};
    }
#pragma unroll
    for (uint32_t k = 0; k < kPieces; ++k) {
      const uint32_t i = begin + 4 * (lane() + k * n_lanes());
      if (i >= n_wide) continue;
      Float4 v;
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) v.v[j] = result_of<kOp>(va[k].v[j], kIsBinary ? vb[k].v[j] : 0.0f, piece.params);
      *at<Float4>(piece.y + 4 * uint64_t{i}) = v;
    }
  }
  for (uint32_t i = n_wide + lane(); i < piece.n; i += n_lanes())
    y[i] = result_of<kOp>(a[i], kIsBinary ? b[piece.is_repeated ? 0 : i] : 0.0f, piece.params);
}

}  // namespace

TESSERA_KERNEL(elementwise, 128) {
  const uint32_t n = step.y.ne[0], per_row = (n + step.u[0] - 1) / step.u[0], group = group_of(step);
  const uint32_t row = group / per_row, begin = (group - row * per_row) * step.u[0];
  const RowIndex index = row_index(step.y, row);
  // The second operand is repeated along extents of 1.
  const Operand& second = step.x[1];
  const bool is_repeated = second.ne[0] == 1;
  const uint64_t b = row_of(second, second.ne[1] == 1 ? 0 : index.i1, second.ne[2] == 1 ? 0 : index.i2,
                            second.ne[3] == 1 ? 0 : index.i3);
  const uint64_t offset = 4 * uint64_t{begin};
  const Piece piece = {row_at(step.x[0], index) + offset,
                       is_repeated ? b : b + offset,
                       row_at(step.y, index) + offset,
                       min_of(n - begin, step.u[0]),
                       is_repeated,
                       {float_of(step.u[1]), float_of(step.u[2]), float_of(step.u[3]), float_of(step.u[4])}};
  allow_next();
  wait_for_previous();
  if (group >= step.n_groups) return;
  switch (step.variant) {
#define TESSERA_ELEMENTWISE(name, n_operands, parameters, devices) \
  case kElementwise_##name:                                        \
    return compute<kElementwise_##name, n_operands == 2>(piece);
#include "tessera/graph/ops.def"
  }
}

}  // namespace tessera::cuda
