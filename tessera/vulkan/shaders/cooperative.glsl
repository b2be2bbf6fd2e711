// Cooperative matrices (VK_KHR_cooperative_matrix): matrices of 16 x 16 values that a subgroup multiplies together, f16
// values summed in f32. Shared by the shaders of products that use them.
//
// Debian's glslc does not know the extension, so types and instructions are named by their SPIR-V numbers. It cannot
// name the type of the values either: spirv.h replaces kHalf and kFloat by the types. With kEmulated, the invocations
// of a subgroup compute the matrices in plain code, so that tests check the shaders on any device.
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

uint n_matrix_segments(uint k) { return (k + kSegmentColumns - 1u) / kSegmentColumns; }

// The matrices of a workgroup, in rows of kLine. The padding lets reads of adjacent rows use all memory banks.
const uint kPerWord = 4;  // values of an element
shared f16vec4 pool[kPoolWords];

/// Eight values of f16.
struct Halves {
  f16vec4 low, high;
};
Halves halves_of(float v[8]) { return Halves(f16vec4(v[0], v[1], v[2], v[3]), f16vec4(v[4], v[5], v[6], v[7])); }
Halves halves_of_words(uvec4 words) {
  return Halves(f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y)),
                f16vec4(unpackFloat2x16(words.z), unpackFloat2x16(words.w)));
}
/// The piece from column i of a row of k weights, with zeros after the end of the row.
Halves weights_as_halves(uint64_t row, uint i, uint k) {
  if (kFormat == kFormat_f16 && kWideWeights && i + kPiece <= k)
    return halves_of_words(Quads(row + uint64_t(i) * 2ul).at[0]);
  float v[8];
  for (uint j = 0; j < 8u; ++j) v[j] = 0.0;
  if (i < k) weights_at(row, i, k, v);
  return halves_of(v);
}
void store_piece(uint at, Halves h) {
  pool[at] = h.low;
  pool[at + 1u] = h.high;
}

#ifdef kEmulated

#define UNROLL [[dont_unroll]]  // drivers of CPUs compile unrolled loops for minutes
struct MatrixA { uint at, stride; };
#define MatrixB MatrixA
struct Sums { float at[32]; };  // of the values lane, lane + n_lanes, ... of the matrix, by row

MatrixA load_a(uint at, uint stride) { return MatrixA(at, stride); }
MatrixB load_b(uint at, uint stride) { return MatrixB(at, stride); }
float value_of(MatrixA m, uint line, uint i) { return float(pool[m.at + line * m.stride + i / kPerWord][i % kPerWord]); }
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
const uint kHalf = 16, kFloat = 32;  // placeholders, see above
const uint kSubgroupScope = 3, kUseA = 0, kUseB = 1, kUseSums = 2, kRowMajor = 0, kColumnMajor = 1;
#define kNonPrivate 0x20  // other invocations see the memory
#define COOPERATIVE_TYPE(element, use)                                                                \
  spirv_type(extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022], id = 4456, element, \
             kSubgroupScope, kSide, kSide, use)
#define MatrixA COOPERATIVE_TYPE(kHalf, kUseA)
#define MatrixB COOPERATIVE_TYPE(kHalf, kUseB)
#define Sums COOPERATIVE_TYPE(kFloat, kUseSums)
#define COOPERATIVE_INSTRUCTION(number) \
  spirv_instruction(extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022], id = number)

COOPERATIVE_INSTRUCTION(4457)
MatrixA read_a(spirv_by_reference f16vec4 from, uint layout_of, uint stride, spirv_literal uint access);
COOPERATIVE_INSTRUCTION(4457)
MatrixB read_b(spirv_by_reference f16vec4 from, uint layout_of, uint stride, spirv_literal uint access);
COOPERATIVE_INSTRUCTION(4457)
Sums read_sums(spirv_by_reference float from, uint layout_of, uint stride, spirv_literal uint access);
COOPERATIVE_INSTRUCTION(4458)
void write_sums(spirv_by_reference float to, Sums s, uint layout_of, uint stride, spirv_literal uint access);
COOPERATIVE_INSTRUCTION(4459)
Sums multiply_add(MatrixA a, MatrixB b, Sums s);
spirv_instruction(id = 129)  // OpFAdd
Sums add(Sums a, Sums b);
spirv_instruction(id = 133)  // OpFMul
Sums multiply(Sums a, Sums b);
spirv_instruction(id = 80)  // OpCompositeConstruct
Sums filled(float v);

// Macros, because glslc does not let functions return these types.
#define zeros() filled(0.0)
/// Loads rows of weights, one after the other, or the values of tokens as columns.
#define load_a(at, stride) read_a(pool[at], kRowMajor, stride, kNonPrivate)
#define load_b(at, stride) read_b(pool[at], kColumnMajor, stride, kNonPrivate)

#endif
