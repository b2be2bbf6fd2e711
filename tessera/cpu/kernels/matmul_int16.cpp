// Matrix multiplication with panels of f16 and bf16 weights in 16-bit integers: see matmul_int16.h.
#include "tessera/cpu/kernels/matmul_int16.h"

#include "tessera/cpu/kernels/float_elements.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr PanelFormat kF16 = float_panel_format<ElementF16, Int16Products>();
constexpr PanelFormat kBF16 = float_panel_format<ElementBF16, Int16Products>();

}  // namespace

constexpr ByDType<const PanelFormat*> kInt16PanelFormats = [] {
  ByDType<const PanelFormat*> table;
  table.of_dtype[static_cast<int>(DType::f16)] = &kF16;
  table.of_dtype[static_cast<int>(DType::bf16)] = &kBF16;
  return table;
}();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
