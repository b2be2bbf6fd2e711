// Panels of q5_K weights: see matmul_int8.h and unpack/q5_k.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q5_k.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ5_K = int8_panel_format<PanelQ5_K>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
