#include "tessera/llama/registry.h"

#include <mutex>

#include "tessera/app/app.h"

namespace tessera::llama {

// A weak pointer: drivers may be gone before the last destructors of a program run.
Result<std::shared_ptr<const Registry>> shared_registry() {
  static std::mutex mutex;
  static std::weak_ptr<const Registry> current;
  const std::lock_guard lock(mutex);
  if (auto shared = current.lock()) return shared;
  TESSERA_ASSIGN(std::shared_ptr<const Registry> created, create_registry(""));
  current = created;
  return created;
}

}  // namespace tessera::llama
