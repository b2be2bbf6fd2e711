// Panels of iq2_xxs weights: see matmul_int8.h and unpack/iq2_xxs.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq2_xxs.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ2_XXS = int8_panel_format<PanelIQ2_XXS>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
