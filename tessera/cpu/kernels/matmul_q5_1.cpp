// Panels of q5_1 weights: see matmul_int8.h and unpack/q5_1.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q5_1.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ5_1 = int8_panel_format<PanelQ5_1>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
