#include "tessera/quant/formats/iq3_s.h"

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"
#include "tessera/quant/formats/codebook_search.h"
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr Grid<4, 512> kGrid(codebooks::kIq3s);
constexpr int kLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr Lattice<4, 8, 512> kLattice(codebooks::kIq3s, kLevels);

struct Traits {
  using Block = BlockIQ3_S;

  static constexpr int kDim = 4, kPoints = 512, kScaleBlock = 32, kMaxScale = 15, kDeltaGroups = 0;
  static constexpr float kUnit = 1.0f, kLargest = 15.0f;
  static constexpr Signs kSigns = Signs::free;
  static constexpr int kFirstTries = 12;
  static constexpr float kLowTry = 0.6f, kHighTry = 1.25f;

  static const Grid<kDim, kPoints>& grid() { return kGrid; }
  using Codes = Lattice<kDim, 8, kPoints>;
  static const Codes& lattice() { return kLattice; }

  static constexpr int kSquares = 3, kSteps = 9, kCodes = 8;
  static constexpr float kSigmaFactor = 2.0f, kTiny = 0.0f, kStep = 0.2f, kFudge = 1.033f;
  static constexpr Resnap kResnap = Resnap::all_if_any_off_grid;
  static constexpr bool kFitsMaximum = false;

  static float plain_weight(float x, float /*sigma2*/) { return x * x; }

  static Block pack(const Encoding& encoding) {
    Block block = {};
    block.d = encoding.d;
    for (int g = 0; g < 64; ++g) {
      block.qs[g] = static_cast<uint8_t>(encoding.points[g]);
      block.qh[g / 8] |= static_cast<uint8_t>(encoding.points[g] >> 8 << g % 8);
    }
    memcpy(block.signs, encoding.signs, sizeof block.signs);
    for (int i = 0; i < 8; ++i) set_nibble(block.scales, i, encoding.scales[i]);
    return block;
  }
};

void decode(const BlockIQ3_S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 64; ++g, out += 4) {
    const float scale = d * static_cast<float>(1 + 2 * nibble(block.scales, g / 8));
    const int point = block.qs[g] | (block.qh[g / 8] >> g % 8 & 1) << 8;
    decode_point<4>(codebooks::kIq3s[point], static_cast<uint32_t>(block.signs[g / 2] >> 4 * (g % 2)), scale, out);
  }
}

}  // namespace

constexpr Format kIQ3_S = {decode_row<BlockIQ3_S, decode>, encode_row<Traits, Search<Traits>::encode>,
                           encode_row<Traits, Compat<Traits>::encode>, scale_fault<&BlockIQ3_S::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
