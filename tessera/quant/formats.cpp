// Picks the copy of the formats that suits the CPU.
#include "tessera/quant/formats.h"

#include "tessera/base/cpu_info.h"

namespace tessera::quant {

namespace scalar {
extern const Format* const* const kFormats;
}
#if defined(TESSERA_HAVE_avx2)
namespace avx2 {
extern const Format* const* const kFormats;
}
#endif
#if defined(TESSERA_HAVE_avx512)
namespace avx512 {
extern const Format* const* const kFormats;
}
#endif

namespace {

struct InstructionSet {
  std::string_view name;
  const Format* const* const* formats;  // by GGUF type id
  bool (*usable)(const CpuFeatures& cpu);
};

constexpr InstructionSet kInstructionSets[] = {
    {"scalar", &scalar::kFormats, [](const CpuFeatures&) { return true; }},
#if defined(TESSERA_HAVE_avx2)
    {"avx2", &avx2::kFormats, runs_avx2_code},
#endif
#if defined(TESSERA_HAVE_avx512)
    {"avx512", &avx512::kFormats, runs_avx512_code},
#endif
};

const InstructionSet& best_set() {
  static const InstructionSet& best = [] -> const InstructionSet& {
    const CpuFeatures cpu = cpu_features();
    size_t i = std::size(kInstructionSets) - 1;
    while (!kInstructionSets[i].usable(cpu)) --i;
    return kInstructionSets[i];
  }();
  return best;
}

}  // namespace

const Format* find_format(DType dtype) { return (*best_set().formats)[static_cast<size_t>(dtype)]; }

const Format* find_format(DType dtype, std::string_view isa) {
  for (const InstructionSet& set : kInstructionSets)
    if (set.name == isa) return (*set.formats)[static_cast<size_t>(dtype)];
  return nullptr;
}

std::vector<std::string_view> usable_isas() {
  const CpuFeatures cpu = cpu_features();
  std::vector<std::string_view> names;
  for (const InstructionSet& set : kInstructionSets)
    if (set.usable(cpu)) names.push_back(set.name);
  return names;
}

}  // namespace tessera::quant
