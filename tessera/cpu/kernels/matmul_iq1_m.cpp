// Panels of iq1_m weights: see matmul_int8.h and unpack/iq1_m.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq1_m.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ1_M = int8_panel_format<PanelIQ1_M>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
