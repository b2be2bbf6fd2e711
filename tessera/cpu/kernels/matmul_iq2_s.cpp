// Panels of iq2_s weights: see matmul_int8.h and unpack/iq2_s.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq2_s.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ2_S = int8_panel_format<PanelIQ2_S>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
