// Matrix multiplication with panels of bf16 weights: see matmul_float.h.
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

struct ElementBF16 {
  using Stored = uint16_t;
  static constexpr bool kStreamed = true;  // tiles read it from memory
  static F32x16 load(const uint8_t* p) { return F32x16::load_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

}  // namespace

constexpr PanelFormat kPanelBF16 = float_panel_format<ElementBF16>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
