// A vector holds the sub-blocks of two super-blocks. The search finds the best unrounded scale of each sub-block. Then
// it alternates between the best integer scales for a common d and the best d for these scales.
#include "tessera/quant/formats/iq4_xs.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/iq4.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kSubs = 8;                 // sub-blocks of a super-block
constexpr int kSupers = kLanes / kSubs;  // super-blocks of a vector
constexpr int kSubElements = 32;
constexpr int kRounds = 3;

/// Copies a value per super-block to its lanes.
F32x16 spread(const float (&v)[kSupers]) {
  F32x16 out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = v[lane / kSubs];
  return out;
}
F32x16 sum_of_subs(F32x16 v) {
  float sums[kSupers] = {};
  for (int lane = 0; lane < kLanes; ++lane) sums[lane / kSubs] += v[lane];
  return spread(sums);
}
/// The scale of largest magnitude of each super-block, the first one on ties.
F32x16 extreme_of_subs(F32x16 v) {
  float extremes[kSupers] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    float& extreme = extremes[lane / kSubs];
    if (__builtin_fabsf(v[lane]) > __builtin_fabsf(extreme)) extreme = v[lane];
  }
  return spread(extremes);
}

/// scales: -32 .. 31. Codes are chosen for d * scale; ggml's rule passes d before rounding.
void store_blocks(const F32x16 (&x)[kSubElements], F32x16 d, F32x16 scales, int n_blocks, BlockIQ4_XS* blocks) {
  const F32x16 inverse = inverse_or_zero(d * scales);
  I32x16 codes[kSubElements], words[4];
  for (int i = 0; i < kSubElements; ++i) codes[i] = IQ4Levels::nearest_code(x[i] * inverse);
  pack_nibbles(codes, words);
  const I32x16 stored = to_i32(scales) + 32;
  for (int b = 0; b < n_blocks; ++b) {
    BlockIQ4_XS& block = blocks[b];
    block = {};
    block.d = compat_f16(d[b * kSubs]);
    for (int j = 0; j < kSubs; ++j) {
      const int scale = stored[b * kSubs + j];
      block.scales_l[j / 2] = static_cast<uint8_t>(block.scales_l[j / 2] | (scale & 15) << 4 * (j % 2));
      block.scales_h = static_cast<uint16_t>(block.scales_h | (scale >> 4) << 2 * j);
      unload_words(words, b * kSubs + j, block.qs + 16 * j);
    }
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockIQ4_XS* blocks) {
  Group<kSubElements> group;
  load_group(x, weights, n_blocks * kSubs, group);
  const F32x16 free = search_scale<IQ4Levels>(group), zeros = error_of_zeros(group);

  F32x16 d = round_f16(extreme_of_subs(free) / -32.0f);
  F32x16 best = broadcast(__builtin_inff()), best_d = {}, best_scales = {};
  for (int round = 0; round < kRounds; ++round) {
    const F32x16 centre = round_even(clamp(free * inverse_or_zero(d), -32.0f, 31.0f));
    F32x16 error = zeros, scales = {};
    for (int shift = -1; shift <= 1; ++shift) {
      const F32x16 scale = clamp(centre + static_cast<float>(shift), -32.0f, 31.0f);
      const F32x16 e = error_at<IQ4Levels>(group, d * scale);
      const I32x16 better = e < error;
      error = select(better, e, error);
      scales = select(better, scale, scales);
    }
    const F32x16 total = sum_of_subs(error);
    const I32x16 better = total < best;
    best = select(better, total, best);
    best_d = select(better, d, best_d);
    best_scales = select(better, scales, best_scales);

    const Products sum = products_at<IQ4Levels>(group, inverse_or_zero(d * scales));
    const F32x16 fit = sum_of_subs(sum.xl * scales) / sum_of_subs(sum.ll * scales * scales);
    d = round_f16(fit);
  }
  // Without a finite error, or with a scale of 0, the block is zeros.
  store_blocks(group.x, best_d, select(best_d != 0.0f, best_scales, F32x16{}), n_blocks, blocks);
}

void encode_blocks_compat(const float* x, const float* importance, int n_blocks, BlockIQ4_XS* blocks) {
  float variances[kSupers] = {};
  for (int b = 0; b < n_blocks; ++b) {
    float squares = 0.0f;
    for (int i = 0; i < BlockIQ4_XS::kElements; ++i) {
      const float v = x[b * BlockIQ4_XS::kElements + i];
      squares += v * v;
    }
    variances[b] = 2.0f * squares / static_cast<float>(BlockIQ4_XS::kElements);
  }
  Group<kSubElements> group;
  load_compat_iq4_group(x, importance, n_blocks * kSubs, spread(variances), group);
  const F32x16 free = compat_iq4_scale(group), d = extreme_of_subs(free) / -32.0f;
  const F32x16 scales = round_even(clamp(free * inverse_or_zero(d), -32.0f, 31.0f));
  store_blocks(group.x, d, scales, n_blocks, blocks);
}

void decode_block(const BlockIQ4_XS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kSubs; ++j) {
    const int low = (block.scales_l[j / 2] >> 4 * (j % 2)) & 15, high = (block.scales_h >> 2 * j) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      const uint8_t byte = block.qs[16 * j + i];
      out[32 * j + i] = scale * static_cast<float>(kIQ4Levels[byte & 15]);
      out[32 * j + i + 16] = scale * static_cast<float>(kIQ4Levels[byte >> 4]);
    }
  }
}

}  // namespace

constexpr Format kIQ4_XS = {decode_blocks<BlockIQ4_XS, decode_block>,
                            encode_groups<BlockIQ4_XS, encode_blocks, kSupers>,
                            encode_groups<BlockIQ4_XS, encode_blocks_compat, kSupers>, scale_fault<&BlockIQ4_XS::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
