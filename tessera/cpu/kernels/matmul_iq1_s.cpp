// Panels of iq1_s weights: see matmul_int8.h and unpack/iq1_s.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq1_s.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ1_S = int8_panel_format<PanelIQ1_S>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
