#include "tessera/quant/formats/q5_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/nibbles.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

struct Levels : IntegerLevels<-16, 15> {
  static constexpr auto kTargets = integer_targets<14>(16.0f, -2.0f, 0.3f);
  static constexpr int kRefits = 2;
};

}  // namespace

constexpr Format kQ5_0 = nibble_format<BlockQ5_0, SymmetricFormat<BlockQ5_0, Levels, 16>>(scale_fault<&BlockQ5_0::d>);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
