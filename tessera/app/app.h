// The composition root: the only code that names concrete backends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/host_allocator.h"

namespace tessera {

struct RegistryOptions {
  std::string isa = {};                   // instruction set of the CPU; "": the best one
  std::vector<std::string> plugins = {};  // folders of backend plugins, or plugins
  /// Whether plugins are also searched in the program's own folder and in $TESSERA_BACKENDS, and whether the variables
  /// $TESSERA_ISA, $TESSERA_BLAS, $TESSERA_CUDA_... and $TESSERA_VULKAN_... count.
  bool use_environment = true;
  HostAllocator allocator = {};  // of the CPU's buffers; empty: the system
};

/// Creates a registry of the devices of this machine. Errors: unsupported (isa).
Result<std::unique_ptr<Registry>> create_registry(RegistryOptions options);
/// With an instruction set and otherwise the defaults.
inline Result<std::unique_ptr<Registry>> create_registry(const std::string& isa) {
  return create_registry(RegistryOptions{.isa = isa});
}

}  // namespace tessera
