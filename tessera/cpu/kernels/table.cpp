// The table of the kernels of one instruction set. A derived set (cmake/isa.cmake) has integer products of its own. The
// rest of its table is its base's.
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu {

#if defined(TESSERA_ISA_BASE)
namespace TESSERA_ISA_BASE {
const Kernels& kernels() noexcept;
}
#endif

namespace TESSERA_ISA_NAMESPACE {

namespace {

#define TESSERA_STRINGIZE_INNER(x) #x
#define TESSERA_STRINGIZE(x) TESSERA_STRINGIZE_INNER(x)
constexpr const char* kName = TESSERA_STRINGIZE(TESSERA_ISA_NAMESPACE);

#if defined(TESSERA_ISA_BASE)

struct DerivedKernels {
  ByDType<const PanelFormat*> panel_formats;
  Kernels kernels;

  explicit DerivedKernels(const Kernels& base) noexcept : kernels(base) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) \
  panel_formats.of_dtype[id] = elements > 1 ? &kPanel##symbol : base.panel_formats[id];
#include "tessera/tensor/dtype.def"
    kernels.isa = kName;
    kernels.panel_formats = panel_formats.of_dtype;
    kernels.int16_panel_formats = kInt16PanelFormats.of_dtype;
    kernels.peak_int8 = peak_int8;
    kernels.peak_int16 = peak_int16;
  }
};

}  // namespace

const Kernels& kernels() noexcept {
  static const DerivedKernels derived(TESSERA_ISA_BASE::kernels());
  return derived.kernels;
}

#else

constexpr ByDType<const PanelFormat*> kPanelFormats = [] {
  ByDType<const PanelFormat*> table;
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) table.of_dtype[id] = &kPanel##symbol;
#include "tessera/tensor/dtype.def"
  return table;
}();

constexpr Kernels kKernels = {
    .isa = kName,
    .panel_formats = kPanelFormats.of_dtype,
    .int16_panel_formats = kInt16PanelFormats.of_dtype,
    .elementwise = kElementwiseKernels,
    .norm = &kNormKernels,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .to_f32 = kToF32.of_dtype,
    .from_f32 = kFromF32.of_dtype,
    .recurrent = &kRecurrentKernels,
    .streams = &kStreamKernels,
    .transpose = transpose_rows,
    .loss = &kLossKernels,
    .optimizer = &kOptimizerKernels,
    .recurrent_grad = &kRecurrentGradKernels,
    .experts_grad = &kExpertsGradKernels,
    .kv_formats = kKvFormats.of_dtype,
    .attention = attention,
    .attention_scratch_bytes = attention_scratch_bytes,
    .key_scores = key_scores,
    .compress_rows = compress_rows,
    .self_attention = &kSelfAttentionKernels,
    .peak_int8 = peak_int8,
    .peak_f32 = peak_f32,
    .peak_int16 = peak_int16,
    .peak_read = peak_read,
};

}  // namespace

const Kernels& kernels() noexcept { return kKernels; }

#endif

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::cpu
