// The table of built instruction sets, worst first, and the choice among them.
#include "tessera/cpu/dispatch.h"

#include <fmt/ranges.h>

#include "tessera/base/cpu_info.h"

namespace tessera::cpu {

namespace scalar {
const Kernels& kernels();
}
#if defined(TESSERA_HAVE_avx2)
namespace avx2 {
const Kernels& kernels();
}
#endif
#if defined(TESSERA_HAVE_avx512)
namespace avx512 {
const Kernels& kernels();
}
#endif

namespace {

/// One row per set of cmake/isa.cmake.
struct InstructionSet {
  const Kernels& (*kernels)();
  bool (*usable)(const CpuFeatures& cpu);
};

constexpr InstructionSet kInstructionSets[] = {
    {scalar::kernels, [](const CpuFeatures&) { return true; }},
#if defined(TESSERA_HAVE_avx2)
    {avx2::kernels, runs_avx2_code},
#endif
#if defined(TESSERA_HAVE_avx512)
    {avx512::kernels, runs_avx512_code},
#endif
};

std::vector<const Kernels*> usable_kernels() {
  const CpuFeatures cpu = cpu_features();
  std::vector<const Kernels*> usable;
  for (const InstructionSet& set : kInstructionSets)
    if (set.usable(cpu)) usable.push_back(&set.kernels());
  return usable;
}

}  // namespace

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : usable_kernels()) names.emplace_back(kernels->isa);
  return names;
}

Result<const Kernels*> select_kernels(const std::string& isa) {
  const std::vector<const Kernels*> usable = usable_kernels();
  if (isa.empty()) return usable.back();
  for (const Kernels* kernels : usable)
    if (isa == kernels->isa) return kernels;
  return fail(ErrorCode::unsupported,
              "instruction set \"{}\": unknown, not built, or not supported by this CPU; usable: {}", isa,
              fmt::join(usable_isas(), ", "));
}

}  // namespace tessera::cpu
