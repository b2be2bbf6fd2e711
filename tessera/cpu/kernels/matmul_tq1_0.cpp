// Panels of tq1_0 weights: see matmul_int8.h and unpack/tq1_0.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/tq1_0.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelTQ1_0 = int8_panel_format<PanelTQ1_0>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
