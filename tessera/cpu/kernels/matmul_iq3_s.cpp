// Panels of iq3_s weights: see matmul_int8.h and unpack/iq3_s.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq3_s.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ3_S = int8_panel_format<PanelIQ3_S>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
