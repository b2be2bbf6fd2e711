// Encodes blocks of 32 elements in the formats that a KV cache may have, by the CPU's rules
// (cpu/kernels/row_formats.h). The bytes are identical if the device divides exactly; Vulkan permits errors of 2.5 ULP.
// `precise` prevents the contraction of a product and a sum.

/// A block in units of two bytes, lowest byte first. The first block_halves() are used.
struct Block {
  uint halves[kMostBlockHalves];
};

uint scale_half(float f) { return isnan(f) ? 0x7e00u : half_of_float(f); }
float inverse_or_zero(float d) { return d != 0.0 ? 1.0 / d : 0.0; }
/// Returns low for a NaN.
float clamped(float v, float low, float high) {
  const float bounded = v > low ? v : low;
  return bounded < high ? bounded : high;
}

/// Returns the first element of the largest magnitude. NaNs are skipped.
float extreme_of(float x[32]) {
  float largest = 0.0, extreme = 0.0;
  for (uint i = 0; i < 32u; ++i)
    if (abs(x[i]) > largest) {
      largest = abs(x[i]);
      extreme = x[i];
    }
  return extreme;
}

/// Writes codes from half `at` on. Byte j holds the low four bits of elements j and j + 16.
void put_nibbles(uint codes[32], uint at, inout Block block) {
  for (uint h = 0; h < 8u; ++h)
    block.halves[at + h] = codes[2u * h] & 15u | (codes[2u * h + 16u] & 15u) << 4u |
                           (codes[2u * h + 1u] & 15u) << 8u | (codes[2u * h + 17u] & 15u) << 12u;
}
void put_fifth_bits(uint codes[32], uint at, inout Block block) {
  uint bits = 0u;
  for (uint i = 0; i < 32u; ++i) bits |= codes[i] >> 4u << i;
  block.halves[at] = bits & 0xffffu;
  block.halves[at + 1u] = bits >> 16u;
}

void encode_q8_0(float x[32], inout Block block) {
  float largest = 0.0;
  for (uint i = 0; i < 32u; ++i) largest = abs(x[i]) > largest ? abs(x[i]) : largest;
  const float d = largest / 127.0;
  const float inverse = 1.0 / d, finite = abs(inverse) <= 3.402823466e+38 ? inverse : 0.0;
  block.halves[0] = half_of_float(d);
  uint codes[32];
  for (uint i = 0; i < 32u; ++i) {
    precise const float v = clamped(x[i] * finite, -127.0, 127.0);
    const int whole = int(v);
    precise const float rest = v - float(whole);  // exact; half-way cases round away from zero
    codes[i] = uint(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0)) & 255u;
  }
  for (uint h = 0; h < 16u; ++h) block.halves[1u + h] = codes[2u * h] | codes[2u * h + 1u] << 8u;
}

/// Computes the codes (x - origin) * inverse + shift, clamped to [0, top] and truncated.
void integer_codes(float x[32], float origin, float inverse, float shift, float top, out uint codes[32]) {
  for (uint i = 0; i < 32u; ++i) {
    precise const float scaled = (x[i] - origin) * inverse;
    precise const float shifted = scaled + shift;
    codes[i] = uint(clamped(shifted, 0.0, top));
  }
}

/// q4_0 and q5_0: offset is half the number of codes.
void encode_symmetric(float x[32], float offset, inout Block block) {
  const bool has_fifth = offset == 16.0;
  const float d = extreme_of(x) / -offset;
  block.halves[0] = scale_half(d);
  uint codes[32];
  integer_codes(x, 0.0, inverse_or_zero(d), offset + 0.5, 2.0 * offset - 1.0, codes);
  if (has_fifth) put_fifth_bits(codes, 1u, block);
  put_nibbles(codes, has_fifth ? 3u : 1u, block);
}

/// q4_1 and q5_1: the range of values is divided into `top` steps.
void encode_affine(float x[32], float top, inout Block block) {
  const bool has_fifth = top == 31.0;
  float low = x[0], high = x[0];  // NaN if the first element is NaN; other NaNs are skipped
  for (uint i = 1; i < 32u; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  precise const float range = high - low;
  const float d = range / top;
  block.halves[0] = scale_half(d);
  block.halves[1] = scale_half(low);
  uint codes[32];
  integer_codes(x, low, inverse_or_zero(d), 0.5, top, codes);
  if (has_fifth) put_fifth_bits(codes, 2u, block);
  put_nibbles(codes, has_fifth ? 4u : 2u, block);
}

/// Sum of 16 terms in the CPU's order: i with i + 8, then i + 4, i + 2, i + 1.
float tree_sum(float v[16]) {
  for (uint s = 8u; s > 0u; s /= 2u)
    for (uint i = 0; i < s; ++i) {
      precise const float sum = v[i] + v[i + s];
      v[i] = sum;
    }
  return v[0];
}

/// The value of the largest magnitude is mapped to the level -127, the others to the nearest levels. Then d is fitted
/// by least squares.
void encode_iq4_nl(float x[32], inout Block block) {
  const float d = extreme_of(x) / -127.0, inverse = inverse_or_zero(d);
  uint codes[32];
  float products[16], squares[16];
  for (uint i = 0; i < 32u; ++i) {
    precise const float scaled = clamped(x[i] * inverse, -127.0, 127.0);
    float level = table_level(kTableIq4, 0u);
    codes[i] = 0u;
    for (uint c = 1; c < 16u; ++c) {
      const float above = table_level(kTableIq4, c);
      if (scaled >= 0.5 * (table_level(kTableIq4, c - 1u) + above)) {
        level = above;
        codes[i] = c;
      }
    }
    precise const float product = scaled * level;
    precise const float with_first = i < 16u ? product : products[i & 15u] + product;
    products[i & 15u] = with_first;
    squares[i & 15u] = i < 16u ? level * level : squares[i & 15u] + level * level;  // integers: exact
  }
  precise const float fitted = d * (tree_sum(products) / tree_sum(squares));  // no level is 0
  block.halves[0] = scale_half(fitted);
  put_nibbles(codes, 1u, block);
}

void encode_q4_0(float x[32], inout Block block) { encode_symmetric(x, 8.0, block); }
void encode_q4_1(float x[32], inout Block block) { encode_affine(x, 15.0, block); }
void encode_q5_0(float x[32], inout Block block) { encode_symmetric(x, 16.0, block); }
void encode_q5_1(float x[32], inout Block block) { encode_affine(x, 31.0, block); }

// Of each format of the cache that has blocks, a case of
//   uint block_halves(uint format)
//   void encode_block(uint format, float x[32], inout Block block)
#include "formats_encode.glsl"
