// The search tries scales around both ends of the codes' range: either sign of d is legal.
#include "tessera/quant/formats/q5_0.h"

#include "tessera/quant/formats/compat_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/scale_search.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr float kTop = 16.0f;
constexpr int kElements = BlockQ5_0::kElements;

struct Levels : IntegerLevels<-16, 15> {
  static constexpr auto kTargets = integer_targets<14>(16.0f, -2.0f, 0.3f);
  static constexpr int kRefits = 2;
};

void store_blocks(F32x16 d, const I32x16 (&codes)[kElements], int n_blocks, BlockQ5_0* blocks) {
  I32x16 words[4];
  pack_nibbles(codes, words);
  const I32x16 fifth[1] = {pack_fifth_bits(codes)};
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].d = compat_f16(d[b]);
    unload_words(fifth, b, blocks[b].qh);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockQ5_0* blocks) {
  Group<kElements> group;
  load_group(x, weights, n_blocks, group);
  const F32x16 d = round_f16(search_scale<Levels>(group));
  I32x16 codes[kElements];
  symmetric_codes<Levels>(group.x, d, 16, codes);
  store_blocks(d, codes, n_blocks, blocks);
}

/// d = extreme value / -16, codes truncated; without an imatrix.
void encode_blocks_by_rule(const float* from, const float* /*weights*/, int n_blocks, BlockQ5_0* blocks) {
  F32x16 x[kElements];
  load_blocks(from, n_blocks, x);
  const F32x16 d = extreme_value(x) / -kTop, inverse = inverse_or_zero(d);
  I32x16 codes[kElements];
  for (int i = 0; i < kElements; ++i)
    codes[i] = to_i32(clamp(x[i] * inverse + (kTop + 0.5f), 0.0f, 2.0f * kTop - 1.0f));
  store_blocks(d, codes, n_blocks, blocks);
}

void encode_blocks_by_imatrix(const float* x, const float* importance, float variance, int n_blocks,
                              BlockQ5_0* blocks) {
  Group<kElements> group;
  load_compat_group(x, importance, n_blocks, broadcast(variance), group);
  I32x16 codes[kElements];
  const F32x16 d = compat_symmetric_codes(group, kTop, codes);
  store_blocks(d, codes, n_blocks, blocks);
}

void encode_row_compat(const float* x, const float* importance, int64_t n, void* row) {
  if (importance == nullptr) return encode_groups<BlockQ5_0, encode_blocks_by_rule>(x, nullptr, n, row);
  encode_compat_groups<BlockQ5_0, encode_blocks_by_imatrix>(x, importance, n, row);
}

void decode_block(const BlockQ5_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    const int low = (block.qh[j / 8] >> j % 8) & 1, high = (block.qh[2 + j / 8] >> j % 8) & 1;
    out[j] = d * static_cast<float>(((block.qs[j] & 15) | low << 4) - 16);
    out[j + 16] = d * static_cast<float>(((block.qs[j] >> 4) | high << 4) - 16);
  }
}

}  // namespace

constexpr Format kQ5_0 = {decode_blocks<BlockQ5_0, decode_block>, encode_groups<BlockQ5_0, encode_blocks>,
                          encode_row_compat, scale_fault<&BlockQ5_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
