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

const Format& format_of(const InstructionSet& set, DType dtype) { return *(*set.formats)[static_cast<size_t>(dtype)]; }

const Format* weight_format(const InstructionSet& set, DType dtype) {
  return info(dtype).is_format ? &format_of(set, dtype) : nullptr;
}

}  // namespace

const Format* find_format(DType dtype) { return weight_format(best_set(), dtype); }

const Format* find_format(DType dtype, std::string_view isa) {
  for (const InstructionSet& set : kInstructionSets)
    if (set.name == isa) return weight_format(set, dtype);
  return nullptr;
}

std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks) {
  const Format& format = format_of(best_set(), dtype);
  if (format.first_fault == nullptr) return std::nullopt;
  const BlockFault fault =
      format.first_fault(blocks.data(), static_cast<int64_t>(blocks.size()) / info(dtype).block_bytes);
  if (fault.block < 0) return std::nullopt;
  return fault;
}

std::vector<std::string_view> usable_isas() {
  const CpuFeatures cpu = cpu_features();
  std::vector<std::string_view> names;
  for (const InstructionSet& set : kInstructionSets)
    if (set.usable(cpu)) names.push_back(set.name);
  return names;
}

}  // namespace tessera::quant
