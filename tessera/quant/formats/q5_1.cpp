// The search allows any sign of m, as the format does; ggml's imatrix search clamps m to 0 or less.
#include "tessera/quant/formats/q5_1.h"

#include "tessera/quant/formats/compat_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/scale_search.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr float kTop = 31.0f;
constexpr int kElements = BlockQ5_1::kElements;
constexpr AffineSteps kSteps = {.first = -0.9f, .step = 0.2f, .count = 14, .refits = 2};

void store_blocks(AffineScale scale, const I32x16 (&codes)[kElements], int n_blocks, BlockQ5_1* blocks) {
  I32x16 words[4];
  pack_nibbles(codes, words);
  const I32x16 fifth[1] = {pack_fifth_bits(codes)};
  for (int b = 0; b < n_blocks; ++b) {
    blocks[b].d = compat_f16(scale.d[b]);
    blocks[b].m = compat_f16(scale.m[b]);
    unload_words(fifth, b, blocks[b].qh);
    unload_words(words, b, blocks[b].qs);
  }
}

void encode_blocks(const float* x, const float* weights, int n_blocks, BlockQ5_1* blocks) {
  Group<kElements> group;
  load_group(x, weights, n_blocks, group);
  const AffineScale scale = search_affine(group, kTop, kSteps);
  I32x16 codes[kElements];
  affine_codes(group.x, scale, kTop, codes);
  store_blocks(scale, codes, n_blocks, blocks);
}

/// The range of values divided into 31 parts; without an imatrix.
void encode_blocks_by_rule(const float* from, const float* /*weights*/, int n_blocks, BlockQ5_1* blocks) {
  F32x16 x[kElements];
  load_blocks(from, n_blocks, x);
  F32x16 low = x[0], high = x[0];
  for (int i = 1; i < kElements; ++i) low = min(x[i], low), high = max(x[i], high);
  const F32x16 d = (high - low) / kTop, inverse = inverse_or_zero(d);
  I32x16 codes[kElements];
  for (int i = 0; i < kElements; ++i) codes[i] = to_i32(clamp((x[i] - low) * inverse + 0.5f, 0.0f, kTop));
  store_blocks({d, low}, codes, n_blocks, blocks);
}

void encode_blocks_by_imatrix(const float* x, const float* importance, float variance, int n_blocks,
                              BlockQ5_1* blocks) {
  Group<kElements> group;
  load_compat_group(x, importance, n_blocks, broadcast(variance), group);
  AffineScale scale;
  I32x16 codes[kElements];
  scale.d = compat_affine_codes(group, kTop, scale.m, codes);
  store_blocks(scale, codes, n_blocks, blocks);
}

void encode_row_compat(const float* x, const float* importance, int64_t n, void* row) {
  if (importance == nullptr) return encode_groups<BlockQ5_1, encode_blocks_by_rule>(x, nullptr, n, row);
  encode_compat_groups<BlockQ5_1, encode_blocks_by_imatrix>(x, importance, n, row);
}

void decode_block(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    const int low = (block.qh[j / 8] >> j % 8) & 1, high = (block.qh[2 + j / 8] >> j % 8) & 1;
    out[j] = d * static_cast<float>((block.qs[j] & 15) | low << 4) + m;
    out[j + 16] = d * static_cast<float>((block.qs[j] >> 4) | high << 4) + m;
  }
}

}  // namespace

constexpr Format kQ5_1 = {decode_blocks<BlockQ5_1, decode_block>, encode_groups<BlockQ5_1, encode_blocks>,
                          encode_row_compat, scale_and_min_fault<&BlockQ5_1::d, &BlockQ5_1::m>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
