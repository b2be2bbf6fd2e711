// Matrix multiplication with panels of f32 weights: see matmul_float.h.
#include "tessera/cpu/kernels/float_elements.h"
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelF32 = float_panel_format<ElementF32>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
