// Panels of iq2_xs weights: see matmul_int8.h and unpack/iq2_xs.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq2_xs.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ2_XS = int8_panel_format<PanelIQ2_XS>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
