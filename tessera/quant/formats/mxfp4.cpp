// The search tries two powers of two as scale: the one of ggml, which clips the largest values at 1.5 times their power
// of two, and the next one, which does not.
#include "tessera/quant/formats/mxfp4.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/fp4.h"
#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockMXFP4::kElements;
constexpr int32_t kLargestExponent = 252;  // 12 * 2^(e - 128) is finite
constexpr int kNan = 255;

/// v * 2^(128 - e), exact unless it leaves the range of f32. The factor can be 2^128, so it is applied in two halves.
[[gnu::always_inline]] inline F32x16 divide_by_scale(F32x16 v, I32x16 e) {
  const I32x16 power = 128 - e, half = power >> 1;
  return v * from_bits((half + 127) << 23) * from_bits((power - half + 127) << 23);
}

/// floor(log2 v) - 2 with the bias: the largest magnitude becomes 8 to 16.
[[gnu::always_inline]] inline I32x16 exponent_of(F32x16 largest) {
  const I32x16 e = (bits_of(largest) >> 23) - 2;
  const I32x16 low = select(e > 0, e, I32x16{});
  return select(low < kLargestExponent, low, broadcast_i32(kLargestExponent));
}

void store_blocks(const F32x16 (&x)[kElements], I32x16 e, int n_blocks, BlockMXFP4* blocks) {
  I32x16 codes[kElements], words[4];
  for (int i = 0; i < kElements; ++i) codes[i] = fp4_codes(divide_by_scale(x[i], e), broadcast(1.0f));
  pack_nibbles(codes, words);
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].e = static_cast<uint8_t>(e[b]);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* from, const float* weights, int n_blocks, BlockMXFP4* blocks) {
  Group<kElements> group;
  load_group(from, weights, n_blocks, group);
  const auto& [x, w, wx] = group;
  const I32x16 e = exponent_of(largest_magnitude(x));
  F32x16 error = {}, error_of_next = {};
  for (int i = 0; i < kElements; ++i) {
    const F32x16 v = abs(divide_by_scale(x[i], e));
    const F32x16 d = v - fp4_nearest(v), d_of_next = v - 2.0f * fp4_nearest(0.5f * v);
    error += w[i] * d * d;
    error_of_next += w[i] * d_of_next * d_of_next;
  }
  const I32x16 next = (error_of_next < error) & (e < kLargestExponent);
  store_blocks(x, e - next, n_blocks, blocks);
}

void encode_blocks_by_rule(const float* from, const float* /*importance*/, int n_blocks, BlockMXFP4* blocks) {
  F32x16 x[kElements];
  load_blocks(from, n_blocks, x);
  store_blocks(x, exponent_of(largest_magnitude(x)), n_blocks, blocks);
}

void decode_block(const BlockMXFP4& block, float* out) {
  // 2^(e - 128); the first two are subnormal.
  const float scale = float_of(block.e < 2 ? 0x200000u << block.e : static_cast<uint32_t>(block.e - 1) << 23);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(kFP4Levels[block.qs[j] & 15]);
    out[j + 16] = scale * static_cast<float>(kFP4Levels[block.qs[j] >> 4]);
  }
}

/// Whether a value of the block overflows, as the larger codes do with the largest exponents.
bool is_fault(const BlockMXFP4& block) {
  if (block.e == kNan) return true;
  float values[kElements];
  decode_block(block, values);
  bool any = false;
  for (const float v : values) any |= is_f32_fault(bits_of(v));
  return any;
}

BlockFault first_fault(const void* blocks, int64_t n) {
  const int64_t bad = first_where(n, [=](int64_t i) {
    return field_at(blocks, i, &BlockMXFP4::e) > kLargestExponent && is_fault(block_at<BlockMXFP4>(blocks, i));
  });
  if (bad < 0) return {-1, nullptr};
  return {bad, field_at(blocks, bad, &BlockMXFP4::e) == kNan ? kScaleFault : kValueFault};
}

}  // namespace

constexpr Format kMXFP4 = {decode_blocks<BlockMXFP4, decode_block>, encode_groups<BlockMXFP4, encode_blocks>,
                           encode_groups<BlockMXFP4, encode_blocks_by_rule>, first_fault};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
