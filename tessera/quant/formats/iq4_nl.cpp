// Like q4_0, with other levels, none of which is 0.
#include "tessera/quant/formats/iq4_nl.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/iq4.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockIQ4_NL::kElements;

void store_blocks(const F32x16 (&x)[kElements], F32x16 inverse, F32x16 d, int n_blocks, BlockIQ4_NL* blocks) {
  I32x16 codes[kElements], words[4];
  for (int i = 0; i < kElements; ++i) codes[i] = IQ4Levels::nearest_code(x[i] * inverse);
  pack_nibbles(codes, words);
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].d = compat_f16(d[b]);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockIQ4_NL* blocks) {
  Group<kElements> group;
  load_group(x, weights, n_blocks, group);
  F32x16 d = round_f16(search_scale<IQ4Levels>(group));
  d = select(error_at<IQ4Levels>(group, d) < error_of_zeros(group), d, F32x16{});
  store_blocks(group.x, inverse_or_zero(d), d, n_blocks, blocks);
}

void encode_blocks_compat(const float* x, const float* importance, int n_blocks, BlockIQ4_NL* blocks) {
  Group<kElements> group;
  load_blocks(x, n_blocks, group.x);
  F32x16 squares = {};
  for (int i = 0; i < kElements; ++i) squares += group.x[i] * group.x[i];
  load_compat_iq4_group(x, importance, n_blocks, 2.0f * squares / static_cast<float>(kElements), group);
  const F32x16 d = compat_iq4_scale(group);
  store_blocks(group.x, inverse_or_zero(d), d, n_blocks, blocks);
}

void decode_block(const BlockIQ4_NL& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(kIQ4Levels[block.qs[j] & 15]);
    out[j + 16] = d * static_cast<float>(kIQ4Levels[block.qs[j] >> 4]);
  }
}

}  // namespace

constexpr Format kIQ4_NL = {decode_blocks<BlockIQ4_NL, decode_block>, encode_groups<BlockIQ4_NL, encode_blocks>,
                            encode_groups<BlockIQ4_NL, encode_blocks_compat>, scale_fault<&BlockIQ4_NL::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
