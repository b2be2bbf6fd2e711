// Panels of iq4_xs weights: see matmul_int8.h and unpack/iq4_xs.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq4_xs.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ4_XS = int8_panel_format<PanelIQ4_XS>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
