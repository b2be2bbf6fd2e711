#include "tessera/backend/backend.h"

#include <algorithm>
#include <iterator>

namespace tessera {

std::span<const std::unique_ptr<Device>> Registry::devices() const {
  const std::lock_guard lock(mutex_);
  if (finder_) {
    std::vector<std::unique_ptr<Device>> all = std::exchange(finder_, nullptr)();
    std::ranges::move(devices_, std::back_inserter(all));
    devices_ = std::move(all);
  }
  return devices_;
}

Result<const Device*> Registry::find(std::string_view name) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& device : devices_)
      if (device->name() == name) return device.get();
  }
  std::string known;
  for (const auto& device : devices()) {
    if (device->name() == name) return device.get();
    known.append(known.empty() ? "" : ", ").append(device->name());
  }
  return fail(ErrorCode::not_found, "no device named {} (there are: {})", name, known);
}

}  // namespace tessera
