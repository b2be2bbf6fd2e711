#include "tessera/app/app.h"

#include "tessera/cpu/backend.h"

namespace tessera {

Result<std::unique_ptr<Registry>> create_registry(const std::string& isa) {
  auto registry = std::make_unique<Registry>();
  TESSERA_ASSIGN(auto cpu, cpu::create_device(isa));
  registry->add(std::move(cpu));
  return registry;
}

}  // namespace tessera
