#include "tessera/quant/formats/iq1_s.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/iq1_compat.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<8, 2048> kGrid(codebooks::kIq1s);

struct Traits {
  using Block = BlockIQ1_S;

  static constexpr int kDim = 8, kPoints = 2048, kScaleBlock = 32, kMaxScale = 7, kDeltaGroups = 4;
  static constexpr float kUnit = 1.0f, kLargest = 1.125f;
  static constexpr Signs kSigns = Signs::none;
  static constexpr int kFirstTries = 8;
  static constexpr float kLowTry = 0.3f, kHighTry = 1.0f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }

  static constexpr float kTiny = 1e-12f, kFudge = 1.125f;
  static constexpr bool kFitsD = false;

  static float plain_weight(float x, float sigma2) { return __builtin_sqrtf(sigma2 + x * x); }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int g = 0; g < 32; ++g) {
      block.qs[g] = static_cast<uint8_t>(encoding.points[g]);
      block.qh[g / 4] |= static_cast<uint16_t>(encoding.points[g] >> 8 << 3 * (g % 4));
    }
    for (int i = 0; i < 8; ++i)
      block.qh[i] |= static_cast<uint16_t>(encoding.scales[i] << 12 | encoding.is_down[4 * i] << 15);
    return block;
  }
};

void decode(const BlockIQ1_S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 32; ++g, out += 8) {
    const int high = block.qh[g / 4];
    const float scale = d * static_cast<float>(2 * (high >> 12 & 7) + 1);
    const int point = block.qs[g] | (high >> 3 * (g % 4) & 7) << 8;
    decode_shifted(codebooks::kIq1s[point], high >> 15 != 0 ? -kDelta : kDelta, scale, out);
  }
}

}  // namespace

constexpr Format kIQ1_S = {decode_row<BlockIQ1_S, decode>, encode_row<Traits, Search<Traits>::encode>,
                           encode_row<Traits, Iq1Compat<Traits>::encode>, scale_fault<&BlockIQ1_S::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
