#include "tessera/quant/formats/q4_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/nibbles.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

struct Levels : IntegerLevels<-8, 7> {
  static constexpr auto kTargets = integer_targets<12>(8.0f, -0.9f, 0.3f);
  static constexpr int kRefits = 2;
};

}  // namespace

constexpr Format kQ4_0 = nibble_format<BlockQ4_0, SymmetricFormat<BlockQ4_0, Levels, 8>>(scale_fault<&BlockQ4_0::d>);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
