// The table of the kernels of one instruction set.
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr ByDType<const PanelFormat*> kPanelFormats = [] {
  ByDType<const PanelFormat*> table;
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) table.of_dtype[id] = &kPanel##symbol;
#include "tessera/tensor/dtype.def"
  return table;
}();

#define TESSERA_STRINGIZE_INNER(x) #x
#define TESSERA_STRINGIZE(x) TESSERA_STRINGIZE_INNER(x)

constexpr Kernels kKernels = {
    .isa = TESSERA_STRINGIZE(TESSERA_ISA_NAMESPACE),
    .panel_formats = kPanelFormats.of_dtype,
    .elementwise = kElementwiseKernels,
    .norm = &kNormKernels,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .to_f32 = kToF32.of_dtype,
    .from_f32 = kFromF32.of_dtype,
    .recurrent = &kRecurrentKernels,
    .transpose = transpose_rows,
    .loss = &kLossKernels,
    .optimizer = &kOptimizerKernels,
    .recurrent_grad = &kRecurrentGradKernels,
    .experts_grad = &kExpertsGradKernels,
    .kv_formats = kKvFormats.of_dtype,
    .attention = attention,
    .attention_scratch_bytes = attention_scratch_bytes,
    .self_attention = &kSelfAttentionKernels,
    .peak_int8 = peak_int8,
    .peak_f32 = peak_f32,
    .peak_bf16 = peak_bf16,
    .peak_read = peak_read,
};

}  // namespace

const Kernels& kernels() { return kKernels; }

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
