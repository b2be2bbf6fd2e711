// Panels of tq2_0 weights: see matmul_int8.h and unpack/tq2_0.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/tq2_0.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelTQ2_0 = int8_panel_format<PanelTQ2_0>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
