// The devices that the models of a process share.
#pragma once

#include <memory>

#include "tessera/backend/backend.h"

namespace tessera::llama {

/// The devices, looked for once while anything holds them. Safe from any thread. Errors: those of create_registry().
Result<std::shared_ptr<const Registry>> shared_registry();

}  // namespace tessera::llama
