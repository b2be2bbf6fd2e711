// Panels of mxfp4 weights: see matmul_int8.h and unpack/mxfp4.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/mxfp4.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelMXFP4 = int8_panel_format<PanelMXFP4>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
