// Panels of q4_0 weights: see matmul_int8.h and unpack/q4_0.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q4_0.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ4_0 = int8_panel_format<PanelQ4_0>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
