#include "tessera/quant/formats/iq2_s.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<8, 1024> kGrid(codebooks::kIq2s);
constexpr int kLevels[] = {8, 25, 43};
constexpr Lattice<8, 3, 1024> kLattice(codebooks::kIq2s, kLevels);

struct Traits {
  using Block = BlockIQ2_S;

  static constexpr int kDim = 8, kPoints = 1024, kScaleBlock = 16, kMaxScale = 15, kDeltaGroups = 0;
  static constexpr float kUnit = 0.125f, kLargest = 43.0f;
  static constexpr Signs kSigns = Signs::free;
  static constexpr int kFirstTries = 16;
  static constexpr float kLowTry = 0.5f, kHighTry = 1.75f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }
  using Codes = Lattice<kDim, 3, kPoints>;
  static const Codes& lattice() { return kLattice; }

  static constexpr int kSquares = 1, kSteps = 9, kCodes = 3;
  static constexpr float kSigmaFactor = 2.0f, kTiny = 1e-8f, kStep = 0.1f, kFudge = 0.9875f;
  static constexpr Resnap kResnap = Resnap::off_grid_groups;
  static constexpr bool kFitsMaximum = false;

  static float plain_weight(float x, float sigma2) { return 0.25f * sigma2 + x * x; }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int g = 0; g < 32; ++g) {
      block.qs[g] = static_cast<uint8_t>(encoding.points[g]);
      block.qh[g / 4] |= static_cast<uint8_t>(encoding.points[g] >> 8 << 2 * (g % 4));
      block.signs[g] = encoding.signs[g];
    }
    for (int i = 0; i < 16; ++i) set_nibble(block.scales, i, encoding.scales[i]);
    return block;
  }
};

void decode(const BlockIQ2_S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 32; ++g, out += 8) {
    const float scale = d * (0.5f + static_cast<float>(nibble(block.scales, g / 2))) * 0.25f;
    const int point = block.qs[g] | (block.qh[g / 4] >> 2 * (g % 4) & 3) << 8;
    decode_point<8>(codebooks::kIq2s[point], block.signs[g], scale, out);
  }
}

}  // namespace

constexpr Format kIQ2_S = {decode_row<BlockIQ2_S, decode>, encode_row<Traits, Search<Traits>::encode>,
                           encode_row<Traits, Compat<Traits>::encode>, scale_fault<&BlockIQ2_S::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
