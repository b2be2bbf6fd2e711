#include "tessera/quant/formats/iq3_xxs.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<4, 256> kGrid(codebooks::kIq3xxs);
constexpr int kLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr Lattice<4, 8, 256> kLattice(codebooks::kIq3xxs, kLevels);

struct Traits {
  using Block = BlockIQ3_XXS;

  static constexpr int kDim = 4, kPoints = 256, kScaleBlock = 32, kMaxScale = 15, kDeltaGroups = 0;
  static constexpr float kUnit = 0.25f, kLargest = 62.0f;
  static constexpr Signs kSigns = Signs::even;
  static constexpr int kFirstTries = 12;
  static constexpr float kLowTry = 0.6f, kHighTry = 1.25f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }
  using Codes = Lattice<kDim, 8, kPoints>;
  static const Codes& lattice() { return kLattice; }

  static constexpr int kSquares = 2, kSteps = 15, kCodes = 8;
  static constexpr float kSigmaFactor = 2.0f, kTiny = 1e-8f, kStep = 0.2f, kFudge = 1.0125f;
  static constexpr Resnap kResnap = Resnap::off_grid_groups;
  static constexpr bool kFitsMaximum = false;

  static float plain_weight(float x, float /*sigma2*/) { return x * x; }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int g = 0; g < 64; ++g) block.qs[g] = static_cast<uint8_t>(encoding.points[g]);
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = signs_and_scale(encoding, i);
      block.signs_and_scale[i][0] = static_cast<uint16_t>(word);
      block.signs_and_scale[i][1] = static_cast<uint16_t>(word >> 16);
    }
    return block;
  }
};

void decode(const BlockIQ3_XXS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 64; ++g, out += 4) {
    const uint16_t(&halves)[2] = block.signs_and_scale[g / 8];
    const uint32_t word = halves[0] | static_cast<uint32_t>(halves[1]) << 16;
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = codebooks::kSigns[word >> 7 * (g / 2 % 4) & 127];
    decode_point<4>(codebooks::kIq3xxs[block.qs[g]], signs >> 4 * (g % 2), scale, out);
  }
}

}  // namespace

constexpr Format kIQ3_XXS = {decode_row<BlockIQ3_XXS, decode>, encode_row<Traits, Search<Traits>::encode>,
                             encode_row<Traits, Compat<Traits>::encode>, scale_fault<&BlockIQ3_XXS::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
