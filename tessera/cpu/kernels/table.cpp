// Gathers one instruction set's kernels into its table.
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr ByDType<const PanelFormat*> kPanelFormats = [] {
  ByDType<const PanelFormat*> table;
  table.of_dtype[0] = &kPanelF32;
  table.of_dtype[1] = &kPanelF16;
  table.of_dtype[2] = &kPanelQ4_0;
  table.of_dtype[3] = &kPanelQ4_1;
  table.of_dtype[6] = &kPanelQ5_0;
  table.of_dtype[7] = &kPanelQ5_1;
  table.of_dtype[8] = &kPanelQ8_0;
  table.of_dtype[10] = &kPanelQ2_K;
  table.of_dtype[11] = &kPanelQ3_K;
  table.of_dtype[12] = &kPanelQ4_K;
  table.of_dtype[13] = &kPanelQ5_K;
  table.of_dtype[14] = &kPanelQ6_K;
  table.of_dtype[16] = &kPanelIQ2_XXS;
  table.of_dtype[17] = &kPanelIQ2_XS;
  table.of_dtype[18] = &kPanelIQ3_XXS;
  table.of_dtype[19] = &kPanelIQ1_S;
  table.of_dtype[20] = &kPanelIQ4_NL;
  table.of_dtype[21] = &kPanelIQ3_S;
  table.of_dtype[22] = &kPanelIQ2_S;
  table.of_dtype[23] = &kPanelIQ4_XS;
  table.of_dtype[29] = &kPanelIQ1_M;
  table.of_dtype[30] = &kPanelBF16;
  table.of_dtype[34] = &kPanelTQ1_0;
  table.of_dtype[35] = &kPanelTQ2_0;
  table.of_dtype[39] = &kPanelMXFP4;
  table.of_dtype[40] = &kPanelNVFP4;
  table.of_dtype[41] = &kPanelQ1_0;
  table.of_dtype[42] = &kPanelQ2_0;
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
