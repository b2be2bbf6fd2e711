// The search uses all 256 codes. ggml's rule does not use -128.
#include "tessera/quant/formats/q8_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/scale_search.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockQ8_0::kElements;

struct Levels : IntegerLevels<-128, 127> {
  static constexpr auto kTargets = integer_targets<24>(128.0f, -16.0f, 0.7f);
  static constexpr int kRefits = 2;
};

void store_blocks(F32x16 d, const I32x16 (&codes)[kElements], int n_blocks, BlockQ8_0* blocks) {
  I32x16 words[8];
  pack_bytes(codes, words);
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].d = compat_f16(d[b]);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockQ8_0* blocks) {
  Group<kElements> group;
  load_group(x, weights, n_blocks, group);
  const F32x16 d = round_f16(search_scale<Levels>(group));
  I32x16 codes[kElements];
  symmetric_codes<Levels>(group.x, d, 0, codes);
  store_blocks(d, codes, n_blocks, blocks);
}

/// d = largest magnitude / 127, codes rounded half away from zero.
void encode_blocks_by_rule(const float* from, const float* /*weights*/, int n_blocks, BlockQ8_0* blocks) {
  F32x16 x[kElements];
  load_blocks(from, n_blocks, x);
  const F32x16 d = largest_magnitude(x) / 127.0f, inverse = inverse_or_zero(d);
  I32x16 codes[kElements];
  for (int i = 0; i < kElements; ++i) codes[i] = round_away(clamp(x[i] * inverse, -127.0f, 127.0f));
  store_blocks(d, codes, n_blocks, blocks);
}

void decode_block(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

}  // namespace

constexpr Format kQ8_0 = {decode_blocks<BlockQ8_0, decode_block>, encode_groups<BlockQ8_0, encode_blocks>,
                          encode_groups<BlockQ8_0, encode_blocks_by_rule>, scale_fault<&BlockQ8_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
