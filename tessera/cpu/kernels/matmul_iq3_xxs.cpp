// Panels of iq3_xxs weights: see matmul_int8.h and unpack/iq3_xxs.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq3_xxs.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ3_XXS = int8_panel_format<PanelIQ3_XXS>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
