// Encodes sixteen blocks at a time, for the formats with independent blocks. Lane b of every vector is block b, so the
// sums of a block run over its elements in index order on every instruction set.
#pragma once

#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/vec.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

/// N elements of up to 16 blocks with their weights, and the products of the two.
template <int N>
struct Group {
  F32x16 x[N], w[N], wx[N];
};

/// weights: null: all are 1.
template <int N>
inline void load_group(const float* x, const float* weights, int n_blocks, Group<N>& group) {
  load_blocks(x, n_blocks, group.x);
  if (weights == nullptr) {
    for (int i = 0; i < N; ++i) group.w[i] = broadcast(1.0f), group.wx[i] = group.x[i];
    return;
  }
  load_blocks(weights, n_blocks, group.w);
  for (int i = 0; i < N; ++i) group.wx[i] = group.w[i] * group.x[i];
}

/// Encodes a row with kEncode, which fills n_blocks (1 to kMaxBlocks) blocks; weights may be null.
template <typename Block, void (*kEncode)(const float* x, const float* weights, int n_blocks, Block* blocks),
          int kMaxBlocks = kLanes>
void encode_groups(const float* x, const float* weights, int64_t n, void* to) {
  auto* row = static_cast<uint8_t*>(to);
  for (int64_t left = n / Block::kElements; left > 0; left -= kMaxBlocks) {
    const int n_blocks = left < kMaxBlocks ? static_cast<int>(left) : kMaxBlocks;
    Block blocks[kMaxBlocks];
    kEncode(x, weights, n_blocks, blocks);
    memcpy(row, blocks, static_cast<size_t>(n_blocks) * sizeof(Block));
    x += kMaxBlocks * Block::kElements;
    if (weights != nullptr) weights += kMaxBlocks * Block::kElements;
    row += static_cast<size_t>(kMaxBlocks) * sizeof(Block);
  }
}

/// Decodes a row of blocks with kDecode.
template <typename Block, void (*kDecode)(const Block& block, float* out)>
void decode_blocks(const void* from, int64_t n, float* out) {
  const auto* row = static_cast<const uint8_t*>(from);
  for (int64_t b = 0; b < n / Block::kElements; ++b, row += sizeof(Block), out += Block::kElements) {
    Block block;  // copied: rows in a file have no alignment
    memcpy(&block, row, sizeof block);
    kDecode(block, out);
  }
}

/// The value of largest magnitude, the first one on ties.
template <int N>
inline F32x16 extreme_value(const F32x16 (&x)[N]) {
  F32x16 extreme = {};
  for (int i = 0; i < N; ++i) extreme = select(abs(x[i]) > abs(extreme), x[i], extreme);
  return extreme;
}
template <int N>
inline F32x16 largest_magnitude(const F32x16 (&x)[N]) {
  F32x16 largest = {};
  for (int i = 0; i < N; ++i) largest = max(abs(x[i]), largest);
  return largest;
}

/// 1 / v; 0 if v is 0.
[[gnu::always_inline]] inline F32x16 inverse_or_zero(F32x16 v) { return select(v != 0.0f, 1.0f / v, F32x16{}); }

[[gnu::always_inline]] inline F32x16 square_root(F32x16 v) {
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
}

/// The nearest finite f16 values; a NaN gives an unspecified value.
[[gnu::always_inline]] inline F32x16 round_f16(F32x16 v) {
  const F32x16 magnitude = min(abs(v), broadcast(65504.0f));
  const I32x16 bits = bits_of(magnitude);
  const I32x16 normal = (bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fff;
  const F32x16 subnormal = (magnitude + 0.5f) - 0.5f;  // a float addition rounds at 2^-24
  const F32x16 rounded = select(magnitude < 0x1p-14f, subnormal, from_bits(normal));
  return from_bits(bits_of(rounded) | (bits_of(v) & bits_of(broadcast(-0.0f))));
}

/// Rounds half away from zero; |v| < 2^22. It adds the float below one half, so that values just below one half
/// do not round up.
[[gnu::always_inline]] inline I32x16 round_away(F32x16 v) {
  const I32x16 sign = bits_of(v) & bits_of(broadcast(-0.0f));
  return to_i32(v + from_bits(sign | bits_of(broadcast(0x1.fffffep-2f))));
}

/// A scale of ggml's rule as f16. As in ggml, overflow gives an infinity. All NaNs give the same bits.
inline uint16_t compat_f16(float v) { return v == v ? f32_to_f16(v) : uint16_t{0x7e00}; }

/// Packs the low 8 bits of codes as bytes: words[k] lane b holds bytes 4k .. 4k + 3 of block b.
template <int N>
inline void pack_bytes(const I32x16 (&codes)[N], I32x16 (&words)[N / 4]) {
  for (int k = 0; k < N / 4; ++k) {
    const I32x16* c = codes + 4 * k;
    words[k] = (c[0] & 255) | (c[1] & 255) << 8 | (c[2] & 255) << 16 | c[3] << 24;
  }
}
/// Packs the low four bits of 32 codes: element j in the low nibble of byte j, element j + 16 in the high one.
inline void pack_nibbles(const I32x16 (&codes)[32], I32x16 (&words)[4]) {
  I32x16 bytes[16];
  for (int j = 0; j < 16; ++j) bytes[j] = (codes[j] & 15) | codes[j + 16] << 4;
  pack_bytes(bytes, words);
}
/// Bit 4 of code i as bit i.
inline I32x16 pack_fifth_bits(const I32x16 (&codes)[32]) {
  I32x16 bits = {};
  for (int i = 0; i < 32; ++i) bits |= ((codes[i] >> 4) & 1) << i;
  return bits;
}

/// Stores lane b of words[k] as bytes 4k .. 4k + 3 of block b at `to`.
template <int K, typename Byte>
inline void unload_words(const I32x16 (&words)[K], int b, Byte* to) {
  static_assert(sizeof(Byte) == 1);
  const auto* lanes = reinterpret_cast<const uint8_t*>(words) + 4 * b;
  for (int k = 0; k < K; ++k) memcpy(to + 4 * k, lanes + k * sizeof(I32x16), 4);
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
