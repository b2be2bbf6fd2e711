// Decodes eight elements of rows that begin at multiples of 16 bytes, with loads of 8 and 16 bytes. Values are the same
// as from decode8.

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Pairs { uvec2 at[]; };

uint byte_of(uvec4 words, uint i) { return words[i / 4u] >> 8u * (i & 3u) & 255u; }

/// The pair of 6-bit scales of sub-block b, from the first 16 bytes of a block of q4_K or q5_K.
uvec2 wide_k_scales(uvec4 head, uint b) {
  if (b < 4u) return uvec2(byte_of(head, 4u + b) & 63u, byte_of(head, 8u + b) & 63u);
  const uint low = byte_of(head, 8u + b);
  return uvec2(low & 15u | byte_of(head, b) >> 6u << 4u, low >> 4u | byte_of(head, 4u + b) >> 6u << 4u);
}

// decode_wide_<name> for each format of floats and each format whose block size is a multiple of 16 bytes. Formats with
// the same function use macros, because glslc generates more instructions for a function that calls another.

void decode_wide_f32(uint64_t row, uint i, out float v[8]) {
  Quads from = Quads(row + uint64_t(i) * 4ul);
  const uvec4 a = from.at[0], b = from.at[1];
  for (uint n = 0; n < 4u; ++n) {
    v[n] = uintBitsToFloat(a[n]);
    v[n + 4u] = uintBitsToFloat(b[n]);
  }
}
void decode_wide_half(uint64_t row, uint i, bool is_bf16, out float v[8]) {
  const uvec4 words = Quads(row + uint64_t(i) * 2ul).at[0];
  for (uint n = 0; n < 8u; ++n) {
    const uint bits = words[n / 2u] >> 16u * (n & 1u) & 0xffffu;
    v[n] = is_bf16 ? uintBitsToFloat(bits << 16u) : float_of_half(bits);
  }
}
#define decode_wide_f16(row, i, v) decode_wide_half(row, i, false, v)
#define decode_wide_bf16(row, i, v) decode_wide_half(row, i, true, v)

void decode_wide_k(uint64_t row, uint i, bool has_fifth, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q4_k) * (has_fifth ? kBytes_q5_k : kBytes_q4_k);
  const uvec4 head = Quads(block).at[0];
  const uint b = (i & 255u) / 32u;
  const uvec2 scales = wide_k_scales(head, b);
  const float a = float_of_half(head.x & 0xffffu) * float(scales.x), m = float_of_half(head.x >> 16u) * float(scales.y);
  const uint64_t codes = block + (has_fifth ? 48ul : 16ul) + uint64_t(32u * (b / 2u) + (i & 31u));
  const uvec2 low = Pairs(codes).at[0] >> b % 2u * 4u;
  uvec2 high = uvec2(0u);
  if (has_fifth) high = Pairs(block + 16ul + uint64_t(i & 31u)).at[0] >> b;
  for (uint n = 0; n < 8u; ++n) {
    const uint shift = 8u * (n & 3u);
    v[n] = a * float(low[n / 4u] >> shift & 15u | (high[n / 4u] >> shift & 1u) << 4u) - m;
  }
}
#define decode_wide_q4_k(row, i, v) decode_wide_k(row, i, false, v)
#define decode_wide_q5_k(row, i, v) decode_wide_k(row, i, true, v)

// The generated file has a case for each of them in
//   void decode8_wide(uint format, uint64_t row, uint i, out float v[8])
// and a case for each format of the KV cache in the following function, which decodes like decode8_wide or decode8. It
// has only these formats, because fewer cases compile faster in the driver.
//   void decode8_kv(uint format, bool is_wide, uint64_t row, uint i, uint count, out float v[8])
#include "formats_decode_wide.glsl"
