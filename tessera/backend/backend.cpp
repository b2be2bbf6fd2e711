#include "tessera/backend/backend.h"

namespace tessera {

Result<const Device*> Registry::find(std::string_view name) const {
  std::string known;
  for (const auto& device : devices_) {
    if (device->name() == name) return device.get();
    known.append(known.empty() ? "" : ", ").append(device->name());
  }
  return fail(ErrorCode::not_found, "no device named {} (there are: {})", name, known);
}

}  // namespace tessera
