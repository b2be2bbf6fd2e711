// Decodes eight adjacent elements of a row in any storage format to floats. Rows are only aligned as their format
// requires, which may be to a byte, so codes are read as aligned words and shifted. No word is read that contains no
// byte of the block. The codes of eight elements stay packed, one per byte, until they become floats.
#pragma once

#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

__device__ inline uint32_t byte_at(uint64_t a) { return *at<const uint8_t>(a); }
/// a: a multiple of 2.
__device__ inline uint32_t half_at(uint64_t a) { return *at<const uint16_t>(a); }
/// a: a multiple of 4.
__device__ inline uint32_t word_at(uint64_t a) { return *at<const uint32_t>(a); }
__device__ inline float f16_at(uint64_t a) { return low_half(half_at(a)); }

/// Four bytes at any address, lowest first. If the address is aligned, both words are the same one.
__device__ inline uint32_t bytes_at(uint64_t a) {
  const uint32_t shift = 8 * static_cast<uint32_t>(a & 3);
  return funnel_right(word_at(a & ~uint64_t{3}), word_at((a + 3) & ~uint64_t{3}), shift);
}

/// Eight bytes, in order from the lowest one of `low`.
struct Packed8 {
  uint32_t low, high;
};
__device__ inline Packed8 packed_at(uint64_t a) {
  const uint32_t shift = 8 * static_cast<uint32_t>(a & 3);
  const uint64_t first = a & ~uint64_t{3};
  const uint32_t middle = word_at(first + 4);
  return {funnel_right(word_at(first), middle, shift), funnel_right(middle, word_at((a + 7) & ~uint64_t{3}), shift)};
}
/// The bits `mask` of each byte after a shift; those that the shift moves between bytes must not be in `mask`.
__device__ inline Packed8 fields_of(Packed8 p, uint32_t shift, uint32_t mask) {
  const uint32_t masks = mask * 0x01010101u;
  return {p.low >> shift & masks, p.high >> shift & masks};
}
__device__ inline Packed8 fields_at(uint64_t a, uint32_t shift, uint32_t mask) {
  return fields_of(packed_at(a), shift, mask);
}
/// The eight nibbles from element j on. 16 bytes hold 32 elements: byte j has element j in the low nibble and j + 16 in
/// the high one.
__device__ inline Packed8 nibbles_at(uint64_t qs, uint32_t j) { return fields_at(qs + (j & 8), (j & 16) >> 2, 15); }
/// Adds the bits of `high`, one field per byte, above the `n_bits` of each byte.
__device__ inline Packed8 with_high(Packed8 p, Packed8 high, uint32_t n_bits) {
  return {p.low | high.low << n_bits, p.high | high.high << n_bits};
}
/// Bit n of the lower four as bit 0 of byte n: the product has a copy of the bits at 0, 7, 14 and 21.
__device__ inline uint32_t spread_bits(uint32_t bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }
__device__ inline Packed8 spread_byte(uint32_t bits) { return {spread_bits(bits), spread_bits(bits >> 4)}; }

/// Byte n of a word, minus a small whole number. Exact: the byte becomes the last bits of 2^23 + byte. Instructions
/// that convert integers have a quarter of the throughput of a subtraction.
__device__ inline float byte_minus(uint32_t word, uint32_t n, float offset) {
  return float_of(select_bytes(word, 0x4b000000u, 0x7440u | n)) - (8388608.0f + offset);
}
__device__ inline void floats_of(Packed8 p, float offset, float (&v)[8]) {
  for (uint32_t n = 0; n < 4; ++n) {
    v[n] = byte_minus(p.low, n, offset);
    v[n + 4] = byte_minus(p.high, n, offset);
  }
}
__device__ inline void signed_floats_of(Packed8 p, float (&v)[8]) {
  floats_of({p.low ^ 0x80808080u, p.high ^ 0x80808080u}, 128.0f, v);
}
__device__ inline void scale_floats(float scale, float (&v)[8]) {
  for (uint32_t n = 0; n < 8; ++n) v[n] = scale * v[n];
}

// Offsets of the codebooks in words (gpu/tables.cpp stores them). They begin at a multiple of 16 bytes.
enum : uint32_t {
  kTableIq2xxs = 0,
  kTableIq2xs = 512,
  kTableIq2s = 1536,
  kTableIq3xxs = 3584,
  kTableIq3s = 3840,
  kTableIq1s = 4352,
  kTableIq4 = 8448,
  kTableE2m1 = 8452
};
__device__ inline uint32_t table_word(uint64_t tables, uint32_t i) { return word_at(tables + 4 * uint64_t{i}); }
/// A point of eight bytes.
__device__ inline Packed8 table_point(uint64_t tables, uint32_t table, uint32_t index) {
  const Word2 point = *at<const Word2>(tables + 4 * uint64_t{table} + 8 * uint64_t{index});
  return {point.x, point.y};
}

/// Bytes of a table of 16, chosen by four codes below 16. A selector chooses from eight bytes by three bits of a
/// nibble, so both halves of the table are asked, and then the fourth bit of each code.
__device__ inline uint32_t choose_of_16(const Word4& table, uint32_t codes) {
  const uint32_t nibbles = select_bytes(codes | codes >> 4, 0, 0x4420);
  const uint32_t low = select_bytes(table.x, table.y, nibbles & 0x7777);
  const uint32_t high = select_bytes(table.z, table.w, nibbles & 0x7777);
  return select_bytes(low, high, 0x3210u | (nibbles & 0x8888) >> 1);
}
/// The levels, signed bytes of a table of 16, for eight codes.
__device__ inline void levels_of(uint64_t tables, uint32_t table, Packed8 codes, float (&v)[8]) {
  const Word4 levels = *at<const Word4>(tables + 4 * uint64_t{table});
  signed_floats_of({choose_of_16(levels, codes.low), choose_of_16(levels, codes.high)}, v);
}

/// The eight signs for seven stored bits: the number of negative signs is even.
__device__ inline uint32_t even_signs(uint32_t index) { return index | (count_bits(index) & 1) << 7; }
/// Magnitudes times the scale, negated where bit n of `signs` is set.
__device__ inline void signed_magnitudes(Packed8 magnitudes, uint32_t signs, float scale, float (&v)[8]) {
  floats_of(magnitudes, 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = float_of(bits_of(scale * v[n]) ^ (signs << (31 - n) & 0x80000000u));
}
__device__ inline void iq1_values(uint64_t tables, uint32_t point, bool is_down, float scale, float (&v)[8]) {
  const float shift = is_down ? -0.125f : 0.125f;
  signed_floats_of(table_point(tables, kTableIq1s, point), v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = scale * (v[n] + shift);
}

struct ScaleAndMin {
  float scale, min;
};
/// The pair of 6-bit numbers of sub-block b of q4_K and q5_K. The same bytes are read for all b, so lanes do not
/// diverge.
__device__ inline ScaleAndMin k_scales(uint64_t scales, uint32_t b) {
  const uint64_t a = scales + (b & 3);
  const uint32_t first = byte_at(a), second = byte_at(a + 4), third = byte_at(a + 8);
  const uint32_t scale = b < 4 ? first & 63 : (third & 15) | first >> 6 << 4;
  const uint32_t min = b < 4 ? second & 63 : third >> 4 | second >> 6 << 4;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

// A function per format, whose blocks are described in quant/formats/<name>.h (floats: float.cpp). The arguments are
// those of decode8().

/// Eight halves from element i on, of which `count` exist; whole words where possible.
__device__ inline void load_halves(uint64_t row, uint32_t i, uint32_t count, uint32_t (&h)[8]) {
  const uint64_t a = row + 2 * uint64_t{i};
  if (count >= 8 && a % 16 == 0) {
    const Word4 words = *at<const Word4>(a);
    const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
    for (uint32_t n = 0; n < 8; ++n) h[n] = pairs[n / 2] >> 16 * (n % 2) & 0xffffu;
    return;
  }
  for (uint32_t n = 0; n < 8; ++n) h[n] = n < count ? half_at(a + 2 * n) : 0;
}

__device__ inline void decode_f32(uint64_t, uint64_t row, uint32_t i, uint32_t count, float (&v)[8]) {
  const uint64_t a = row + kBytes_f32 * uint64_t{i};
  if (count >= 8 && a % 16 == 0) {
    const Word4 low = *at<const Word4>(a), high = *at<const Word4>(a + 16);
    const uint32_t all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (uint32_t n = 0; n < 8; ++n) v[n] = float_of(all[n]);
    return;
  }
  for (uint32_t n = 0; n < 8; ++n) v[n] = n < count ? floats(a)[n] : 0.0f;
}
__device__ inline void decode_f16(uint64_t, uint64_t row, uint32_t i, uint32_t count, float (&v)[8]) {
  uint32_t h[8];
  load_halves(row, i, count, h);
  for (uint32_t n = 0; n < 8; ++n) v[n] = low_half(h[n]);
}
__device__ inline void decode_bf16(uint64_t, uint64_t row, uint32_t i, uint32_t count, float (&v)[8]) {
  uint32_t h[8];
  load_halves(row, i, count, h);
  for (uint32_t n = 0; n < 8; ++n) v[n] = float_of(h[n] << 16);
}

/// The block that contains element i.
#define TESSERA_BLOCK(name) (row + uint64_t{i / kElements_##name} * kBytes_##name)

__device__ inline void decode_q1_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q1_0);
  const uint32_t minus_d = bits_of(f16_at(block)) ^ 0x80000000u, signs = byte_at(block + 2 + i % 128 / 8);
  for (uint32_t n = 0; n < 8; ++n) v[n] = float_of(minus_d ^ (signs << (31 - n) & 0x80000000u));
}
__device__ inline void decode_q2_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q2_0);
  const float d = f16_at(block);
  const uint32_t codes = half_at(block + 2 + i % 64 / 4);
  for (uint32_t n = 0; n < 8; ++n) v[n] = d * static_cast<float>(static_cast<int32_t>(codes >> 2 * n & 3) - 1);
}
__device__ inline void decode_q4_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q4_0);
  floats_of(nibbles_at(block + 2, i), 8.0f, v);
  scale_floats(f16_at(block), v);
}
__device__ inline void decode_q4_1(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q4_1);
  const float d = f16_at(block), m = f16_at(block + 2);
  floats_of(nibbles_at(block + 4, i), 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = d * v[n] + m;
}
__device__ inline void decode_q5_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q5_0);
  const uint32_t high = byte_at(block + 2 + i % 32 / 8);
  floats_of(with_high(nibbles_at(block + 6, i), spread_byte(high), 4), 16.0f, v);
  scale_floats(f16_at(block), v);
}
__device__ inline void decode_q5_1(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q5_1);
  const float d = f16_at(block), m = f16_at(block + 2);
  const uint32_t high = byte_at(block + 4 + i % 32 / 8);
  floats_of(with_high(nibbles_at(block + 8, i), spread_byte(high), 4), 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = d * v[n] + m;
}
__device__ inline void decode_q8_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q8_0);
  signed_floats_of(packed_at(block + 2 + i % 32), v);
  scale_floats(f16_at(block), v);
}

__device__ inline void decode_q2_k(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q2_k);
  const uint32_t b = i % 256 / 16, scales = byte_at(block + b);
  const float a = f16_at(block + 80) * static_cast<float>(scales & 15);
  const float m = f16_at(block + 82) * static_cast<float>(scales >> 4);
  floats_of(fields_at(block + 16 + 32 * (b / 8) + 16 * (b & 1) + (i & 8), b / 2 % 4 * 2, 3), 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = a * v[n] - m;
}
__device__ inline void decode_q3_k(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q3_k), scales = block + 96;
  const uint32_t b = i % 256 / 16, at = 16 * (b & 1) + (i & 8);
  const uint32_t low = byte_at(scales + b % 8) >> 4 * (b / 8) & 15;
  const uint32_t high = byte_at(scales + 8 + b % 4) >> 2 * (b / 4) & 3;
  const float a = f16_at(block + 108) * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32);
  const Packed8 q = fields_at(block + 32 + 32 * (b / 8) + at, b / 2 % 4 * 2, 3);
  floats_of(with_high(q, fields_at(block + at, b / 2, 1), 2), 4.0f, v);
  scale_floats(a, v);
}
__device__ inline void decode_q4_k(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q4_k);
  const uint32_t b = i % 256 / 32;
  const ScaleAndMin k = k_scales(block + 4, b);
  const float a = f16_at(block) * k.scale, m = f16_at(block + 2) * k.min;
  floats_of(fields_at(block + 16 + 32 * (b / 2) + i % 32, b % 2 * 4, 15), 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = a * v[n] - m;
}
__device__ inline void decode_q5_k(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q5_k);
  const uint32_t b = i % 256 / 32;
  const ScaleAndMin k = k_scales(block + 4, b);
  const float a = f16_at(block) * k.scale, m = f16_at(block + 2) * k.min;
  const Packed8 q = fields_at(block + 48 + 32 * (b / 2) + i % 32, b % 2 * 4, 15);
  floats_of(with_high(q, fields_at(block + 16 + i % 32, b, 1), 4), 0.0f, v);
  for (uint32_t n = 0; n < 8; ++n) v[n] = a * v[n] - m;
}
__device__ inline void decode_q6_k(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(q6_k);
  const uint32_t b = i % 256 / 16, g = b / 2 % 4, at = 16 * (b & 1) + (i & 8);
  const float a = f16_at(block + 208) * byte_minus(byte_at(block + 192 + b) ^ 0x80u, 0, 128.0f);
  const Packed8 low = fields_at(block + 64 * (b / 8) + 32 * (g & 1) + at, g / 2 * 4, 15);
  floats_of(with_high(low, fields_at(block + 128 + 32 * (b / 8) + at, 2 * g, 3), 4), 32.0f, v);
  scale_floats(a, v);
}

__device__ inline void decode_iq1_s(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq1_s);
  const uint32_t g = i % 256 / 8, high = half_at(block + 34 + g / 4 * 2);
  const uint32_t point = byte_at(block + 2 + g) | (high >> 3 * (g & 3) & 7) << 8;
  iq1_values(tables, point, high >> 15 != 0, f16_at(block) * static_cast<float>(2 * (high >> 12 & 7) + 1), v);
}
__device__ inline void decode_iq1_m(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq1_m), scales = block + 48;
  const uint32_t g = i % 256 / 8, high = byte_at(block + 32 + g / 2) >> 4 * (g & 1) & 15;
  uint32_t d = 0;
  for (uint32_t n = 0; n < 4; ++n) d |= half_at(scales + 2 * n) >> 12 << 4 * n;
  const uint32_t s = half_at(scales + g / 8 * 2) >> 3 * (g / 2 % 4) & 7;
  const uint32_t point = byte_at(block + g) | (high & 7) << 8;
  iq1_values(tables, point, high >> 3 != 0, low_half(d) * static_cast<float>(2 * s + 1), v);
}
/// The scale of iq2_xxs, iq2_xs, iq2_s and, doubled, iq3_xxs.
__device__ inline float iq2_scale(float d, uint32_t s) { return d * (0.5f + static_cast<float>(s)) * 0.25f; }
__device__ inline void decode_iq2_xxs(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq2_xxs);
  const uint32_t g = i % 256 / 8;
  const uint64_t part = block + 2 + g / 4 * 8;
  const uint32_t word = bytes_at(part + 4), signs = even_signs(word >> 7 * (g & 3) & 127);
  signed_magnitudes(table_point(tables, kTableIq2xxs, byte_at(part + (g & 3))), signs,
                    iq2_scale(f16_at(block), word >> 28), v);
}
__device__ inline void decode_iq2_xs(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq2_xs);
  const uint32_t g = i % 256 / 8, code = half_at(block + 2 + 2 * g);
  const uint32_t s = byte_at(block + 66 + g / 4) >> 4 * (g / 2 & 1) & 15;
  signed_magnitudes(table_point(tables, kTableIq2xs, code & 511), even_signs(code >> 9), iq2_scale(f16_at(block), s),
                    v);
}
__device__ inline void decode_iq2_s(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq2_s);
  const uint32_t g = i % 256 / 8, high = byte_at(block + 66 + g / 4) >> 2 * (g & 3) & 3;
  const uint32_t s = byte_at(block + 74 + g / 4) >> 4 * (g / 2 & 1) & 15;
  signed_magnitudes(table_point(tables, kTableIq2s, byte_at(block + 2 + g) | high << 8), byte_at(block + 34 + g),
                    iq2_scale(f16_at(block), s), v);
}
__device__ inline void decode_iq3_xxs(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq3_xxs);
  const uint32_t g = i % 256 / 8, points = half_at(block + 2 + 2 * g), word = bytes_at(block + 66 + g / 4 * 4);
  const Packed8 point = {table_word(tables, kTableIq3xxs + (points & 255)),
                         table_word(tables, kTableIq3xxs + (points >> 8))};
  signed_magnitudes(point, even_signs(word >> 7 * (g & 3) & 127), 2.0f * iq2_scale(f16_at(block), word >> 28), v);
}
__device__ inline void decode_iq3_s(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq3_s);
  const uint32_t g = i % 256 / 8, points = half_at(block + 2 + 2 * g);
  const uint32_t high = byte_at(block + 66 + g / 4) >> 2 * (g & 3);
  const uint32_t s = byte_at(block + 106 + g / 8) >> 4 * (g / 4 & 1) & 15;
  const Packed8 point = {table_word(tables, kTableIq3s + ((points & 255) | (high & 1) << 8)),
                         table_word(tables, kTableIq3s + (points >> 8 | (high >> 1 & 1) << 8))};
  signed_magnitudes(point, byte_at(block + 74 + g), f16_at(block) * static_cast<float>(1 + 2 * s), v);
}
__device__ inline void decode_iq4_nl(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq4_nl);
  levels_of(tables, kTableIq4, nibbles_at(block + 2, i), v);
  scale_floats(f16_at(block), v);
}
__device__ inline void decode_iq4_xs(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(iq4_xs);
  const uint32_t b = i % 256 / 32, low = byte_at(block + 4 + b / 2) >> 4 * (b & 1) & 15;
  const uint32_t high = half_at(block + 2) >> 2 * b & 3;
  levels_of(tables, kTableIq4, nibbles_at(block + 8 + 16 * b, i), v);
  scale_floats(f16_at(block) * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32), v);
}

/// Three to the power of t, 0 <= t <= 4.
__device__ inline uint32_t power_of_3(uint32_t t) { return (t & 1 ? 3u : 1u) * (t & 2 ? 9u : 1u) * (t & 4 ? 81u : 1u); }
/// Five runs of 32 elements, five of 16, five of 4: a byte holds an element of each run, as a digit of a fraction in
/// base 3. Eight elements are in one run, or the last ones in two.
__device__ inline void decode_tq1_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(tq1_0);
  const uint32_t e = i % 256;
  const bool is_last = e >= 240;
  const uint32_t byte = e < 160 ? e % 32 : is_last ? 48 : 32 + e % 16;
  const uint32_t digit = e < 160 ? e / 32 : is_last ? (e - 240) / 4 : (e - 160) / 16;
  const uint32_t low = bytes_at(block + byte), high = is_last ? low : bytes_at(block + byte + 4);
  const uint32_t low_power = power_of_3(digit), high_power = is_last ? 3 * low_power : low_power;
  const float d = f16_at(block + 52);
  for (uint32_t n = 0; n < 4; ++n) {
    const uint32_t first = (low >> 8 * n & 255) * low_power & 255, second = (high >> 8 * n & 255) * high_power & 255;
    v[n] = d * static_cast<float>(static_cast<int32_t>(3 * first >> 8) - 1);
    v[n + 4] = d * static_cast<float>(static_cast<int32_t>(3 * second >> 8) - 1);
  }
}
__device__ inline void decode_tq2_0(uint64_t, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(tq2_0);
  const uint32_t e = i % 256;
  floats_of(fields_at(block + 32 * (e / 128) + e % 32, e / 32 % 4 * 2, 3), 1.0f, v);
  scale_floats(f16_at(block + 64), v);
}

__device__ inline void decode_mxfp4(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(mxfp4);
  const uint32_t e = byte_at(block);
  levels_of(tables, kTableE2m1, nibbles_at(block + 1, i), v);
  // 2^(e - 128), because the levels are doubled; subnormal for e < 2.
  scale_floats(float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23), v);
}
__device__ inline void decode_nvfp4(uint64_t tables, uint64_t row, uint32_t i, uint32_t, float (&v)[8]) {
  const uint64_t block = TESSERA_BLOCK(nvfp4);
  const uint32_t s = i % 64 / 16, byte = byte_at(block + s), code = byte & 127, e = code >> 3;
  // Half of the E4M3 value, because the levels are doubled; 0x7f is NaN. The sign is ignored.
  const float normal = float_of((e + 119) << 23 | (code & 7) << 20);
  const float scale = byte == 127 ? 0.0f : e == 0 ? static_cast<float>(code) * 0.0009765625f : normal;
  levels_of(tables, kTableE2m1, fields_at(block + 4 + 8 * s, (i & 8) >> 1, 15), v);
  scale_floats(scale, v);
}
#undef TESSERA_BLOCK

/// Decodes elements i to i + 7 of a row. i is a multiple of 8 if the format has blocks. Of rows of floats only `count`
/// elements are read, and the others are 0. tables: the address of the codebooks.
template <uint32_t kFormat>
__device__ inline void decode8(uint64_t tables, uint64_t row, uint32_t i, uint32_t count, float (&v)[8]) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) \
  if constexpr (kFormat == kFormat_##name) decode_##name(tables, row, i, count, v);
#include "tessera/tensor/dtype.def"
}

/// The same for a format that is known only when the kernel runs.
__device__ inline void decode8_of(uint32_t format, uint64_t tables, uint64_t row, uint32_t i, uint32_t count,
                                  float (&v)[8]) {
  switch (format) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) \
  case kFormat_##name:                                          \
    decode_##name(tables, row, i, count, v);                    \
    break;
#include "tessera/tensor/dtype.def"
  }
}

/// The same for the formats that a KV cache may have.
__device__ inline void decode8_kv(uint32_t format, uint64_t tables, uint64_t row, uint32_t i, uint32_t count,
                                  float (&v)[8]) {
  switch (format) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes)
#define TESSERA_KV_FORMAT(name, symbol, text, id, elements, bytes) \
  case kFormat_##name:                                             \
    decode_##name(tables, row, i, count, v);                       \
    break;
#include "tessera/tensor/dtype.def"
  }
}

}  // namespace tessera::cuda
