#include "tessera/quant/formats/q4_1.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/nibbles.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

constexpr Format kQ4_1 =
    nibble_format<BlockQ4_1, AffineFormat<BlockQ4_1, 15>>(scale_and_min_fault<&BlockQ4_1::d, &BlockQ4_1::m>);

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
