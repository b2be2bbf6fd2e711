// Panels of q6_K weights: see matmul_int8.h and unpack/q6_k.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q6_k.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ6_K = int8_panel_format<PanelQ6_K>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
