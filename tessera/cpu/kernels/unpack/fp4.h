// The codes of mxfp4 and nvfp4. Used by unpack/mxfp4.h and unpack/nvfp4.h.
#pragma once

#include <stdint.h>

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

/// The values of the format (E2M1, doubled) plus 12.
inline constexpr uint8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
