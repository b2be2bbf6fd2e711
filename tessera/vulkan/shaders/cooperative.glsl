// Cooperative matrices: matrices of 16 x 16 values that a subgroup multiplies together, f16 values summed in f32. Shared by
// the shaders of products that use them.
//
// Debian's glslc knows only VK_NV_cooperative_matrix, whose types do not tell on which side of a product a matrix is.
// Here the extents tell it, and spirv.h translates the module to VK_KHR_cooperative_matrix, with extents of 16. Products of
// elements are missing too, and sums of elements end the optimizer of Debian 12. A product of two sums stands for both.
// With kEmulated, the invocations of a subgroup compute the matrices in plain code, so that tests check the shaders on
// any device.
//
// The order of summation, which is the same in every shader: a segment is 256 columns. Its sum starts at zero and takes
// 16 columns at a time, in order. The sums of the segments are added in order. In each segment the values of a token
// have a scale of their own, a power of two that keeps them in the range of f16.

const uint kSide = 16, kSegmentColumns = 256, kSegmentPieces = kSegmentColumns / kPiece;
const uint kSubgroups = 8;                       // of a workgroup
const uint kSubgroupLanes = kVariant & 255u;     // invocations of a subgroup

/// The biased exponent that represents a segment whose largest magnitude is `highest`.
uint exponent_of(float highest) { return clamp(floatBitsToUint(highest) >> 23u & 255u, 15u, 254u); }
/// The factor that brings the largest magnitude to 2^14 or more, below 2^15, and its inverse.
float scale_of(uint exponent) { return uintBitsToFloat(268u - exponent << 23u); }
float inverse_scale_of(uint exponent) { return uintBitsToFloat(exponent - 14u << 23u); }

const bool kWholeSegments = (kVariant >> 17u & 1u) != 0u;  // rows end with a segment, so reads need no checks

uint n_matrix_segments(uint k) { return (k + kSegmentColumns - 1u) / kSegmentColumns; }

// The matrices of a workgroup, in rows of kLine pieces. The padding lets reads of adjacent rows use all memory banks.
shared uvec4 pool[kPoolPieces];

/// Eight values as f16.
uvec4 halves_of(float v[8]) {
  return uvec4(packFloat2x16(f16vec2(v[0], v[1])), packFloat2x16(f16vec2(v[2], v[3])),
               packFloat2x16(f16vec2(v[4], v[5])), packFloat2x16(f16vec2(v[6], v[7])));
}
/// The piece from column i of a row of k weights, with zeros after the end of the row.
uvec4 weights_as_halves(uint64_t row, uint i, uint k) {
  if (kFormat == kFormat_f16 && kWideWeights && (kWholeSegments || i + kPiece <= k))
    return Quads(row + uint64_t(i) * 2ul).at[0];
  float v[8];
  for (uint j = 0; j < 8u; ++j) v[j] = 0.0;
  if (kWholeSegments || i < k) weights_at(row, i, k, v);
  return halves_of(v);
}

#ifdef kEmulated

#define UNROLL [[dont_unroll]]  // drivers of CPUs compile unrolled loops for minutes
struct MatrixA { uint at, stride; };
#define MatrixB MatrixA
struct Sums { float at[32]; };  // of the values lane, lane + n_lanes, ... of the matrix, by row

MatrixA load_a(uint at, uint stride) { return MatrixA(at, stride); }
MatrixB load_b(uint at, uint stride) { return MatrixB(at, stride); }
float value_of(MatrixA m, uint line, uint i) {
  return float(unpackFloat2x16(pool[m.at + line * m.stride + i / kPiece][i % kPiece / 2u])[i % 2u]);
}
uint n_mine() { return kSide * kSide / kSubgroupLanes; }
uint my_value(uint i) { return gl_SubgroupInvocationID + i * kSubgroupLanes; }

Sums zeros() {
  Sums s;
  UNROLL for (uint i = 0; i < 32u; ++i) s.at[i] = 0.0;
  return s;
}
Sums multiply_add(MatrixA a, MatrixB b, Sums s) {
  UNROLL for (uint i = 0; i < n_mine(); ++i) {
    const uint row = my_value(i) / kSide, column = my_value(i) % kSide;
    // Mesa's llvmpipe ends all loops of an invocation after 65536 iterations in all.
    [[unroll]] for (uint j = 0; j < kSide; ++j) s.at[i] = fma(value_of(a, row, j), value_of(b, column, j), s.at[i]);
  }
  return s;
}

#else

#define UNROLL [[unroll]]  // for arrays of matrices
#define MatrixA fcoopmatNV<16, gl_ScopeSubgroup, 18, 17>
#define MatrixB fcoopmatNV<16, gl_ScopeSubgroup, 17, 18>
#define Sums fcoopmatNV<32, gl_ScopeSubgroup, 18, 18>

Sums zeros() { return Sums(0.0); }
/// Loads rows of weights, one after the other, or the values of tokens as columns.
MatrixA load_a(uint at, uint stride) {
  MatrixA m;
  coopMatLoadNV(m, pool, at, stride, false);
  return m;
}
MatrixB load_b(uint at, uint stride) {
  MatrixB m;
  coopMatLoadNV(m, pool, at, stride, true);
  return m;
}
Sums multiply_add(MatrixA a, MatrixB b, Sums s) { return coopMatMulAddNV(a, b, s); }

#endif
