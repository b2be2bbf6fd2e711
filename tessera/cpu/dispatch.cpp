#include "tessera/cpu/dispatch.h"

#include "tessera/isa/sets.h"

namespace tessera::cpu {

#define TESSERA_INSTRUCTION_SET(name, base, usable) \
  namespace name {                                  \
  const Kernels& kernels() noexcept;                \
  }
#include "tessera/isa/sets.def"

namespace {

constexpr const Kernels& (*kKernelsOf[])() = {
#define TESSERA_INSTRUCTION_SET(name, base, usable) name::kernels,
#include "tessera/isa/sets.def"
};

}  // namespace

Result<const Kernels*> select_kernels(const std::string& isa) {
  size_t row = isa::default_isa();
  if (!isa.empty()) {
    TESSERA_ASSIGN(row, isa::find_isa(isa));
  }
  return &kKernelsOf[row]();
}

}  // namespace tessera::cpu
