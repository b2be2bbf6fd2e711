// Decodes eight adjacent elements of a row in any storage format to floats. Fields are read as parts of aligned words,
// because rows are only aligned as their format requires, which may be to a byte. So no device feature is needed.

#include "formats_rows.glsl"

/// a: a multiple of 4.
uint word_at(uint64_t a) { return Words(a).at[0]; }
uint byte_at(uint64_t a) { return word_at(a & ~3ul) >> 8u * uint(a & 3ul) & 255u; }
/// a: a multiple of 2.
uint half_at(uint64_t a) { return word_at(a & ~3ul) >> 8u * uint(a & 2ul) & 0xffffu; }
/// Four bytes at any address, lowest first. Reads only words that contain some of them.
uint bytes_at(uint64_t a) {
  const uint shift = 8u * uint(a & 3ul);
  const uint low = word_at(a & ~3ul);
  if (shift == 0u) return low;
  return low >> shift | word_at((a & ~3ul) + 4ul) << 32u - shift;
}
int signed_byte(uint b) { return int(b << 24u) >> 24; }

/// Uses integer operations, because unpackHalf2x16 may flush subnormal numbers, and scales can be subnormal.
float float_of_half(uint h) {
  const uint sign = (h & 0x8000u) << 16u, magnitude = h & 0x7fffu;
  if (magnitude < 0x400u) return uintBitsToFloat(floatBitsToUint(float(magnitude) * 5.9604644775390625e-8) | sign);
  if (magnitude >= 0x7c00u) return uintBitsToFloat(sign | 0x7f800000u | magnitude << 13u);
  return uintBitsToFloat(sign | (magnitude << 13u) + 0x38000000u);
}
float f16_at(uint64_t a) { return float_of_half(half_at(a)); }

/// Rounded to nearest even.
uint half_of_float(float f) {
  const uint bits = floatBitsToUint(f), sign = bits >> 16u & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | magnitude >> 13u & 0x3ffu;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u)
    return sign | floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - 0x3f000000u;
  return sign | magnitude + 0xfffu + (magnitude >> 13u & 1u) - 0x38000000u >> 13u;
}
uint bf16_of_float(float f) {
  const uint bits = floatBitsToUint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16u | 0x40u;
  return bits + 0x7fffu + (bits >> 16u & 1u) >> 16u;
}

/// Reads eight nibbles from element j on. 16 bytes hold 32 elements: byte j has element j in the low nibble and j + 16
/// in the high one.
void nibbles_of(uint64_t qs, uint j, out uint q[8]) {
  const uint64_t a = qs + uint64_t(j & 8u);
  const uint shift = (j & 16u) >> 2u, low = bytes_at(a) >> shift, high = bytes_at(a + 4ul) >> shift;
  for (uint n = 0; n < 4; ++n) {
    q[n] = low >> 8u * n & 15u;
    q[n + 4] = high >> 8u * n & 15u;
  }
}
/// Reads eight bytes from a on, each shifted and masked.
void fields_of(uint64_t a, uint shift, uint mask, out uint q[8]) {
  const uint low = bytes_at(a) >> shift, high = bytes_at(a + 4ul) >> shift;
  for (uint n = 0; n < 4; ++n) {
    q[n] = low >> 8u * n & mask;
    q[n + 4] = high >> 8u * n & mask;
  }
}

// Offsets of the codebooks in words (tables.cpp stores them).
const uint kTableIq2xxs = 0, kTableIq2xs = 512, kTableIq2s = 1536, kTableIq3xxs = 3584, kTableIq3s = 3840,
           kTableIq1s = 4352, kTableIq4 = 8448, kTableE2m1 = 8452;
uint table_word(uint i) { return Words(step.tables).at[i]; }
float table_level(uint table, uint code) {
  return float(signed_byte(table_word(table + code / 4u) >> 8u * (code & 3u)));
}
/// The eight signs for seven stored bits: the number of negative signs is even.
uint even_signs(uint index) { return index | (bitCount(index) & 1u) << 7u; }
float with_sign(float v, uint is_negative) { return is_negative != 0u ? -v : v; }
void magnitudes_of(uint low, uint high, uint signs, float scale, out float v[8]) {
  for (uint n = 0; n < 4; ++n) {
    v[n] = with_sign(scale * float(low >> 8u * n & 255u), signs >> n & 1u);
    v[n + 4] = with_sign(scale * float(high >> 8u * n & 255u), signs >> n + 4u & 1u);
  }
}
void iq1_values(uint point, bool is_down, float scale, out float v[8]) {
  const uint low = table_word(kTableIq1s + 2u * point), high = table_word(kTableIq1s + 2u * point + 1u);
  const float shift = is_down ? -0.125 : 0.125;
  for (uint n = 0; n < 4; ++n) {
    v[n] = scale * (float(signed_byte(low >> 8u * n)) + shift);
    v[n + 4] = scale * (float(signed_byte(high >> 8u * n)) + shift);
  }
}
/// The pair of 6-bit scales of sub-block b of q4_K and q5_K.
uvec2 k_scales(uint64_t scales, uint b) {
  if (b < 4u) return uvec2(byte_at(scales + b) & 63u, byte_at(scales + b + 4ul) & 63u);
  const uint low = byte_at(scales + b + 4ul);
  return uvec2(low & 15u | byte_at(scales + b - 4ul) >> 6u << 4u, low >> 4u | byte_at(scales + b) >> 6u << 4u);
}

// The generated file includes the file of each format and defines
//   void decode8(uint format, uint64_t row, uint i, uint count, out float v[8])
// with a case per format. It decodes elements i to i + 7 of a row; i is a multiple of 8 if the format has blocks. Of
// rows of floats only `count` elements are read, and the others are 0. `format` is a specialization constant, so only
// one case remains after compilation.
#include "formats_decode.glsl"
