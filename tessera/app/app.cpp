#include "tessera/app/app.h"

#include "tessera/cpu/backend.h"
#ifdef TESSERA_HAVE_VULKAN
#include "tessera/vulkan/backend.h"
#endif

namespace tessera {

Result<std::unique_ptr<Registry>> create_registry(const std::string& isa) {
  auto registry = std::make_unique<Registry>();
  TESSERA_ASSIGN(auto cpu, cpu::create_device(isa));
  registry->add(std::move(cpu));
#ifdef TESSERA_HAVE_VULKAN
  registry->set_finder([] { return vulkan::find_devices({}); });
#endif
  return registry;
}

}  // namespace tessera
