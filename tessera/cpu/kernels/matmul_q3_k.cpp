// Panels of q3_K weights: see matmul_int8.h and unpack/q3_k.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/q3_k.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelQ3_K = int8_panel_format<PanelQ3_K>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
