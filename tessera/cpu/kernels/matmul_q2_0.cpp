// Panels of q2_0 weights: see matmul_int8.h and unpack/q2_0.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q2_0.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ2_0 = int8_panel_format<PanelQ2_0>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
