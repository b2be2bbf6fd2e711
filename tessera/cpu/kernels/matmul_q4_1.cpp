// Panels of q4_1 weights: see matmul_int8.h and unpack/q4_1.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q4_1.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ4_1 = int8_panel_format<PanelQ4_1>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
