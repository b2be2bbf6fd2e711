#include "tessera/quant/formats/iq2_xs.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<8, 512> kGrid(codebooks::kIq2xs);
constexpr int kLevels[] = {8, 25, 43};
constexpr Lattice<8, 3, 512> kLattice(codebooks::kIq2xs, kLevels);

struct Traits {
  using Block = BlockIQ2_XS;

  static constexpr int kDim = 8, kPoints = 512, kScaleBlock = 16, kMaxScale = 15, kDeltaGroups = 0;
  static constexpr float kUnit = 0.125f, kLargest = 43.0f;
  static constexpr Signs kSigns = Signs::even;
  static constexpr int kFirstTries = 16;
  static constexpr float kLowTry = 0.5f, kHighTry = 1.75f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }
  using Codes = Lattice<kDim, 3, kPoints>;
  static const Codes& lattice() { return kLattice; }

  static constexpr int kSquares = 2, kSteps = 9, kCodes = 3;
  static constexpr float kSigmaFactor = 1.0f, kTiny = 1e-15f, kStep = 0.1f, kFudge = 1.0f;
  static constexpr Resnap kResnap = Resnap::off_grid_groups;
  static constexpr bool kFitsMaximum = false;

  static float plain_weight(float x, float sigma2) { return __builtin_sqrtf(sigma2 + x * x); }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int g = 0; g < 32; ++g)
      block.qs[g] = static_cast<uint16_t>(encoding.points[g] | (encoding.signs[g] & 127) << 9);
    for (int i = 0; i < 16; ++i) set_nibble(block.scales, i, encoding.scales[i]);
    return block;
  }
};

void decode(const BlockIQ2_XS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 32; ++g, out += 8) {
    const float scale = d * (0.5f + static_cast<float>(nibble(block.scales, g / 2))) * 0.25f;
    decode_point<8>(codebooks::kIq2xs[block.qs[g] & 511], codebooks::kSigns[block.qs[g] >> 9], scale, out);
  }
}

}  // namespace

constexpr Format kIQ2_XS = {decode_row<BlockIQ2_XS, decode>, encode_row<Traits, Search<Traits>::encode>,
                            encode_row<Traits, Compat<Traits>::encode>, scale_fault<&BlockIQ2_XS::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
