// Same values as tq1_0, with two bits each.
#include "tessera/quant/formats/tq2_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"
#include "tessera/quant/formats/ternary.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

void pack(const TernaryBlock& values, BlockTQ2_0& block) {
  for (int h = 0; h < 2; ++h)
    for (int m = 0; m < 32; ++m) {
      const uint8_t* t = values.trits + 128 * h + m;
      block.qs[32 * h + m] = static_cast<uint8_t>(t[0] | t[32] << 2 | t[64] << 4 | t[96] << 6);
    }
  block.d = values.d;
}

void encode_block(const float* x, const float* weights, int /*n_blocks*/, BlockTQ2_0* block) {
  pack(search_ternary(x, weights), *block);
}
void encode_block_by_rule(const float* x, const float* /*importance*/, int /*n_blocks*/, BlockTQ2_0* block) {
  pack(compat_ternary(x), *block);
}

void decode_block(const BlockTQ2_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kTernaryElements; ++i) {
    const int shift = 2 * (i / 32 % 4);
    out[i] = d * static_cast<float>(((block.qs[i / 128 * 32 + i % 32] >> shift) & 3) - 1);
  }
}

}  // namespace

constexpr Format kTQ2_0 = {decode_blocks<BlockTQ2_0, decode_block>, encode_groups<BlockTQ2_0, encode_block, 1>,
                           encode_groups<BlockTQ2_0, encode_block_by_rule, 1>, scale_fault<&BlockTQ2_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
