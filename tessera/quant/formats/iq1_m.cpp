#include "tessera/quant/formats/iq1_m.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/iq1_compat.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<8, 2048> kGrid(codebooks::kIq1s);

struct Traits {
  using Block = BlockIQ1_M;

  static constexpr int kDim = 8, kPoints = 2048, kScaleBlock = 16, kMaxScale = 7, kDeltaGroups = 1;
  static constexpr float kUnit = 1.0f, kLargest = 1.125f;
  static constexpr Signs kSigns = Signs::none;
  static constexpr int kFirstTries = 8;
  static constexpr float kLowTry = 0.3f, kHighTry = 1.0f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }

  static constexpr float kTiny = 1e-7f, kFudge = 1.1125f;
  static constexpr bool kFitsD = true;

  static float plain_weight(float x, float /*sigma2*/) { return x * x; }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    for (int g = 0; g < 32; ++g) {
      block.qs[g] = static_cast<uint8_t>(encoding.points[g]);
      set_nibble(block.qh, g, encoding.points[g] >> 8 | encoding.is_down[g] << 3);
    }
    for (int i = 0; i < 16; ++i) block.scales[i / 4] |= static_cast<uint16_t>(encoding.scales[i] << 3 * (i % 4));
    for (int i = 0; i < 4; ++i) block.scales[i] |= static_cast<uint16_t>((encoding.d >> 4 * i & 15) << 12);
    return block;
  }
};

uint16_t d_of(const BlockIQ1_M& block) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(block.scales[i] >> 12) << 4 * i;
  return static_cast<uint16_t>(bits);
}

BlockFault first_fault(const void* blocks, int64_t n) {
  return {first_where(n, [=](int64_t i) { return is_f16_fault(d_of(block_at<BlockIQ1_M>(blocks, i))); }), kScaleFault};
}

void decode(const BlockIQ1_M& block, float* out) {
  const float d = f16_to_f32(d_of(block));
  for (int g = 0; g < 32; ++g, out += 8) {
    const float scale = d * static_cast<float>(2 * (block.scales[g / 8] >> 3 * (g / 2 % 4) & 7) + 1);
    const int high = nibble(block.qh, g);
    const int point = block.qs[g] | (high & 7) << 8;
    decode_shifted(codebooks::kIq1s[point], high >> 3 != 0 ? -kDelta : kDelta, scale, out);
  }
}

}  // namespace

constexpr Format kIQ1_M = {decode_row<BlockIQ1_M, decode>, encode_row<Traits, Search<Traits>::encode>,
                           encode_row<Traits, Iq1Compat<Traits>::encode>, first_fault};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
