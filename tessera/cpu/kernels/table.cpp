// Gathers one instruction set's kernels into its table.
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

struct PanelFormatTable {
  const PanelFormat* of_dtype[kMaxDTypes] = {};
};

// Indices are GGUF type ids (tensor/dtype.def), which this source does not include.
constexpr PanelFormatTable kPanelFormats = [] {
  PanelFormatTable table;
  table.of_dtype[0] = &kPanelF32;
  table.of_dtype[1] = &kPanelF16;
  table.of_dtype[2] = &kPanelQ4_0;
  table.of_dtype[8] = &kPanelQ8_0;
  table.of_dtype[30] = &kPanelBF16;
  return table;
}();

#define TESSERA_STRINGIZE_INNER(x) #x
#define TESSERA_STRINGIZE(x) TESSERA_STRINGIZE_INNER(x)

constexpr Kernels kKernels = {
    .isa = TESSERA_STRINGIZE(TESSERA_ISA_NAMESPACE),
    .panel_formats = kPanelFormats.of_dtype,
    .rms_norm = rms_norm,
    .add = add_rows,
    .mul = mul_rows,
    .scale = scale_row,
    .silu = silu_row,
    .swiglu = swiglu_row,
    .softmax = softmax_row,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .to_f32 = kToF32,
    .from_f32 = kFromF32,
    .kv_formats = kKvFormats,
    .attention = attention,
    .attention_scratch_bytes = attention_scratch_bytes,
    .peak_int8 = peak_int8,
    .peak_f32 = peak_f32,
    .peak_read = peak_read,
};

}  // namespace

const Kernels& kernels() { return kKernels; }

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
