// Matrix multiplication with panels of f32 weights: see matmul_float.h.
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

struct ElementF32 {
  using Stored = float;
  static constexpr bool kStreamed = true;  // tiles read it from memory
  static F32x16 load(const uint8_t* p) { return F32x16::load(reinterpret_cast<const float*>(p)); }
};

}  // namespace

constexpr PanelFormat kPanelF32 = float_panel_format<ElementF32>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
