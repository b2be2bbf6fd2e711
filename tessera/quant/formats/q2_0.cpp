// Levels -1, 0, 1, 2. The search tries both signs of d, since both are legal. ggml's rule never uses the last level.
#include "tessera/quant/formats/q2_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/scale_search.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockQ2_0::kElements;

/// The extreme value maps to 0.9 to 5 levels. With 1 and 2 among the candidates, rows of exact levels are preserved. 1
/// precedes 2, because d can have a bit that d / 2 loses.
struct Levels : IntegerLevels<-1, 2> {
  static constexpr Targets<32> kTargets = [] {
    Targets<32> targets = {};
    for (int k = 0; k < 16; ++k) {
      const float d = 1.1375f - 0.0625f * static_cast<float>(k);  // of the extreme value
      targets.values[2 * k] = 1.0f / d;
      targets.values[2 * k + 1] = -1.0f / d;
    }
    return targets;
  }();
  static constexpr int kRefits = 3;
};

void store_blocks(F32x16 d, const I32x16 (&codes)[kElements], int n_blocks, BlockQ2_0* blocks) {
  I32x16 words[4] = {};
  for (int i = 0; i < kElements; ++i) words[i / 16] |= codes[i] << 2 * (i % 16);
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].d = compat_f16(d[b]);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockQ2_0* blocks) {
  Group<kElements> group;
  load_group(x, weights, n_blocks, group);
  const F32x16 d = round_f16(search_scale<Levels>(group));
  I32x16 codes[kElements];
  symmetric_codes<Levels>(group.x, d, 1, codes);
  store_blocks(d, codes, n_blocks, blocks);
}

void encode_blocks_by_rule(const float* from, const float* /*importance*/, int n_blocks, BlockQ2_0* blocks) {
  F32x16 x[kElements];
  load_blocks(from, n_blocks, x);
  const F32x16 d = largest_magnitude(x), inverse = inverse_or_zero(d);
  I32x16 codes[kElements];
  for (int i = 0; i < kElements; ++i) codes[i] = round_away(clamp(x[i] * inverse, -1.0f, 2.0f)) + 1;
  store_blocks(d, codes, n_blocks, blocks);
}

void decode_block(const BlockQ2_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<float>(((block.qs[i / 4] >> 2 * (i % 4)) & 3) - 1);
}

}  // namespace

constexpr Format kQ2_0 = {decode_blocks<BlockQ2_0, decode_block>, encode_groups<BlockQ2_0, encode_blocks>,
                          encode_groups<BlockQ2_0, encode_blocks_by_rule>, scale_fault<&BlockQ2_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
