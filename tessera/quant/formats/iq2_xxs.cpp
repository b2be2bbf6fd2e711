#include "tessera/quant/formats/iq2_xxs.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<8, 256> kGrid(codebooks::kIq2xxs);
constexpr int kLevels[] = {8, 25, 43};
constexpr Lattice<8, 3, 256> kLattice(codebooks::kIq2xxs, kLevels);

struct Traits {
  using Block = BlockIQ2_XXS;

  static constexpr int kDim = 8, kPoints = 256, kScaleBlock = 32, kMaxScale = 15, kDeltaGroups = 0;
  static constexpr float kUnit = 0.125f, kLargest = 43.0f;
  static constexpr Signs kSigns = Signs::even;
  static constexpr int kFirstTries = 16;
  static constexpr float kLowTry = 0.5f, kHighTry = 1.75f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }
  using Codes = Lattice<kDim, 3, kPoints>;
  static const Codes& lattice() { return kLattice; }

  static constexpr int kSquares = 2, kSteps = 6, kCodes = 3;
  static constexpr float kSigmaFactor = 1.0f, kTiny = 1e-15f, kStep = 0.1f, kFudge = 1.0f;
  static constexpr Resnap kResnap = Resnap::all;
  static constexpr bool kFitsMaximum = true;

  static float plain_weight(float x, float sigma2) { return __builtin_sqrtf(sigma2 + x * x); }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int i = 0; i < 8; ++i) {
      const uint16_t* points = encoding.points + 4 * i;
      const uint32_t low = signs_and_scale(encoding, i);
      block.qs[i][0] = static_cast<uint16_t>(points[0] | points[1] << 8);
      block.qs[i][1] = static_cast<uint16_t>(points[2] | points[3] << 8);
      block.qs[i][2] = static_cast<uint16_t>(low);
      block.qs[i][3] = static_cast<uint16_t>(low >> 16);
    }
    return block;
  }
};

void decode(const BlockIQ2_XXS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = block.qs[i][2] | static_cast<uint32_t>(block.qs[i][3]) << 16;
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int g = 0; g < 4; ++g, out += 8) {
      const int point = block.qs[i][g / 2] >> 8 * (g % 2) & 0xff;
      decode_point<8>(codebooks::kIq2xxs[point], codebooks::kSigns[word >> 7 * g & 127], scale, out);
    }
  }
}

}  // namespace

constexpr Format kIQ2_XXS = {decode_row<BlockIQ2_XXS, decode>, encode_row<Traits, Search<Traits>::encode>,
                             encode_row<Traits, Compat<Traits>::encode>, scale_fault<&BlockIQ2_XXS::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
