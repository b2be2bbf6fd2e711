// Panels of nvfp4 weights: see matmul_int8.h and unpack/nvfp4.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/nvfp4.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelNVFP4 = int8_panel_format<PanelNVFP4>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
