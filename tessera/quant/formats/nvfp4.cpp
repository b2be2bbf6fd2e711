// A vector holds the 16 sub-blocks of four blocks. The search tries the scales around the one of ggml, which maps the
// largest magnitude to the largest level.
#include "tessera/quant/formats/nvfp4.h"

#include "tessera/quant/formats/fp4.h"
#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kSubs = 4;                 // sub-blocks of a block
constexpr int kBlocks = kLanes / kSubs;  // blocks of a vector
constexpr int kSubElements = 16;
constexpr int kReach = 6;               // scale codes tried on each side
constexpr int32_t kLargestCode = 0x7e;  // 448

/// Half of the UE4M3 value (bias 7) of codes 0 .. kLargestCode: the factor of doubled levels.
[[gnu::always_inline]] inline F32x16 half_scale(I32x16 code) {
  const F32x16 normal = from_bits((code << 20) + (119 << 23)), subnormal = to_f32(code) * 0x1p-10f;
  return select(code < 8, subnormal, normal);
}

/// The code of the scale nearest to v >= 0, rounding half up. May exceed kLargestCode.
[[gnu::always_inline]] inline I32x16 nearest_scale(F32x16 v) {
  const I32x16 normal = ((bits_of(v) + (1 << 19)) >> 20) - (120 << 3);
  const I32x16 subnormal = to_i32(clamp(v * 512.0f + 0.5f, 0.0f, 7.0f));
  return select(v < 0x1p-6f, subnormal, normal);
}

void store_blocks(const F32x16 (&x)[kSubElements], I32x16 scale, int n_blocks, BlockNVFP4* blocks) {
  const F32x16 half = half_scale(scale);
  I32x16 bytes[8], words[2];
  for (int j = 0; j < 8; ++j) bytes[j] = fp4_codes(x[j], half) | fp4_codes(x[j + 8], half) << 4;
  pack_bytes(bytes, words);
  for (int b = 0; b < n_blocks; ++b)
    for (int s = 0; s < kSubs; ++s) {
      blocks[b].scales[s] = static_cast<uint8_t>(scale[b * kSubs + s]);
      unload_words(words, b * kSubs + s, blocks[b].qs + 8 * s);
    }
}

void encode_blocks(const float* from, const float* weights, int n_blocks, BlockNVFP4* blocks) {
  Group<kSubElements> group;
  load_group(from, weights, n_blocks * kSubs, group);
  const auto& [x, w, wx] = group;
  const I32x16 centre = nearest_scale(largest_magnitude(x) / 6.0f);
  F32x16 best = {};
  for (int i = 0; i < kSubElements; ++i) best += wx[i] * x[i];
  I32x16 best_code = {};  // zeros
  for (int shift = -kReach; shift <= kReach; ++shift) {
    const I32x16 raised = centre + shift, positive = select(raised > 1, raised, broadcast_i32(1));
    const I32x16 code = select(positive < kLargestCode, positive, broadcast_i32(kLargestCode));
    const F32x16 half = half_scale(code), inverse = 1.0f / half;
    F32x16 error = {};
    for (int i = 0; i < kSubElements; ++i) {
      const F32x16 v = abs(x[i]), e = v - half * fp4_nearest(v * inverse);
      error += w[i] * e * e;
    }
    const I32x16 better = error < best;
    best = select(better, error, best);
    best_code = select(better, code, best_code);
  }
  store_blocks(x, best_code, n_blocks, blocks);
}

/// ggml's rule treats scales from 256 on as an overflow and stores the largest, 448.
void encode_blocks_by_rule(const float* from, const float* /*importance*/, int n_blocks, BlockNVFP4* blocks) {
  F32x16 x[kSubElements];
  load_blocks(from, n_blocks * kSubs, x);
  const I32x16 code = nearest_scale(largest_magnitude(x) / 6.0f);
  store_blocks(x, select(code < 15 << 3, code, broadcast_i32(kLargestCode)), n_blocks, blocks);
}

void decode_block(const BlockNVFP4& block, float* out) {
  for (int s = 0; s < kSubs; ++s) {
    const uint8_t code = block.scales[s];
    const float magnitude = code == 0x7f ? 0.0f : half_scale(broadcast_i32(code & 0x7f))[0];
    for (int j = 0; j < 8; ++j) {
      const uint8_t byte = block.qs[8 * s + j];
      out[16 * s + j] = magnitude * static_cast<float>(kFP4Levels[byte & 15]);
      out[16 * s + 8 + j] = magnitude * static_cast<float>(kFP4Levels[byte >> 4]);
    }
  }
}

}  // namespace

// Every byte is a finite scale, so there are no faults.
constexpr Format kNVFP4 = {decode_blocks<BlockNVFP4, decode_block>, encode_groups<BlockNVFP4, encode_blocks, kBlocks>,
                           encode_groups<BlockNVFP4, encode_blocks_by_rule, kBlocks>, nullptr};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
