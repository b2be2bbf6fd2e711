#include "tessera/isa/sets.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "tessera/base/cpu_info.h"

namespace tessera::isa {

namespace {

struct InstructionSet {
  std::string_view name;
  bool (*usable)(const CpuFeatures& cpu);
};

bool runs_scalar_code(const CpuFeatures& /*cpu*/) { return true; }
[[maybe_unused]] bool may_run_amx_code(const CpuFeatures& cpu) { return runs_amx_code(cpu) && permit_tile_registers(); }

constexpr InstructionSet kSets[] = {
#define TESSERA_INSTRUCTION_SET(name, base, usable) {#name, usable},
#include "tessera/isa/sets.def"
};

std::vector<size_t> usable_rows() {
  const CpuFeatures cpu = cpu_features();
  std::vector<size_t> rows;
  for (size_t i = 0; i < std::size(kSets); ++i)
    if (kSets[i].usable(cpu)) rows.push_back(i);
  return rows;
}

}  // namespace

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const size_t row : usable_rows()) names.emplace_back(kSets[row].name);
  return names;
}

Result<size_t> find_isa(std::string_view name) {
  for (const size_t row : usable_rows())
    if (kSets[row].name == name) return row;
  return fail(ErrorCode::unsupported,
              "instruction set \"{}\": unknown, not built, or not supported by this CPU; usable: {}", name,
              fmt::join(usable_isas(), ", "));
}

size_t default_isa() {
  static const size_t row = [] {
    const char* wanted = std::getenv("TESSERA_ISA");
    return find_isa(wanted == nullptr ? "" : wanted).value_or(usable_rows().back());
  }();
  return row;
}

}  // namespace tessera::isa
