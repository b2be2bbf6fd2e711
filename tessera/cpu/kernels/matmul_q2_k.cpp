// Panels of q2_K weights: see matmul_int8.h and unpack/q2_k.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q2_k.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ2_K = int8_panel_format<PanelQ2_K>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
