#include "tessera/quant/formats/q5_1.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/nibbles.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

constexpr Format kQ5_1 =
    nibble_format<BlockQ5_1, AffineFormat<BlockQ5_1, 31>>(scale_and_min_fault<&BlockQ5_1::d, &BlockQ5_1::m>);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
