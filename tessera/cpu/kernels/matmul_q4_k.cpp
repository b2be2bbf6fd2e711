// Panels of q4_K weights: see matmul_int8.h and unpack/q4_k.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q4_k.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ4_K = int8_panel_format<PanelQ4_K>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
