// Matrix multiplication with panels of bf16 weights: see matmul_float.h.
#include "tessera/cpu/kernels/float_elements.h"
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelBF16 = float_panel_format<ElementBF16>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
