#include "tessera/backend/backend.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

std::string_view to_string(Arithmetic arithmetic) {
  constexpr std::string_view kNames[] = {"f32", "int16", "int8"};
  return kNames[to_size(arithmetic)];
}

double DevicePeaks::gmacs(Arithmetic arithmetic) const {
  const double rates[] = {f32_gmacs, int16_gmacs, int8_gmacs};
  return rates[to_size(arithmetic)];
}

Arithmetic product_arithmetic(DType weights, ActivationPrecision activations) {
  if (weights == DType::f32 || activations == ActivationPrecision::float32) return Arithmetic::f32;
  return info(weights).is_blocked() ? Arithmetic::int8 : Arithmetic::int16;
}

Result<std::vector<NodeTime>> Backend::run_timed(GraphPlan&, const CancelToken*) {
  return fail(ErrorCode::unsupported, "{} does not tell the times of nodes", device().name());
}

Result<> require_supported(const Device& device, const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id)
    if (!device.supports(graph, id))
      return fail(ErrorCode::unsupported, "{} cannot run {}", device.name(), describe(graph, id));
  return {};
}

Result<> require_tensors(const Device& device, const Graph& graph, std::span<const Tensor> tensors) {
  if (tensors.size() != to_size(graph.size()))
    return fail(ErrorCode::invalid_argument, "{} tensors for {} nodes", tensors.size(), graph.size());
  for (const Tensor& tensor : tensors)
    if (tensor.buffer == nullptr || !device.can_use(tensor.buffer->type()))
      return fail(ErrorCode::invalid_argument, "{} has no memory that {} can address", tensor.name, device.name());
  return {};
}

std::span<const std::unique_ptr<Device>> Registry::devices() const {
  const std::lock_guard lock(mutex_);
  if (finder_) {
    FoundDevices found = std::exchange(finder_, nullptr)();
    std::ranges::move(devices_, std::back_inserter(found.devices));
    devices_ = std::move(found.devices);
    std::ranges::move(found.notes, std::back_inserter(notes_));
  }
  return devices_;
}

std::vector<const Device*> Registry::gpus() const {
  std::span<const std::unique_ptr<Device>> known;
  {
    const std::lock_guard lock(mutex_);
    if (finder_ && may_find_gpus_ && !may_find_gpus_()) known = devices_;
  }
  std::vector<const Device*> gpus;
  const auto is_known = [&](const std::string& hardware) {
    return !hardware.empty() &&
           std::ranges::any_of(gpus, [&](const Device* gpu) { return gpu->hardware_id() == hardware; });
  };
  for (const auto& device : known.empty() ? devices() : known)
    if (device->kind() == DeviceKind::gpu && !is_known(device->hardware_id())) gpus.push_back(device.get());
  return gpus;
}

std::vector<std::string> Registry::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

std::vector<std::string> Registry::named() const {
  std::vector<std::string> names;
  for (const Named& named : named_) names.push_back(named.name);
  return names;
}

Result<const Device*> Registry::find(std::string_view name) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& device : devices_)
      if (device->name() == name) return device.get();
    for (Named& named : named_) {
      if (named.name != name) continue;
      if (named.device == nullptr) {
        TESSERA_ASSIGN(named.device, named.make());
      }
      return named.device.get();
    }
  }
  std::vector<std::string_view> known;
  for (const auto& device : devices()) {
    if (device->name() == name) return device.get();
    known.push_back(device->name());
  }
  const size_t n_unused = notes().size();
  return fail(ErrorCode::not_found, "no device named {} (there are: {}{})", name, fmt::join(known, ", "),
              n_unused == 0 ? "" : fmt::format("; plugins that are not used: {}", n_unused));
}

void Registry::add_notes(std::vector<std::string> notes) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(notes, std::back_inserter(notes_));
}

void Registry::add_group(std::string name, std::vector<std::string> members, std::string why_none) {
  groups_.push_back({std::move(name), std::move(members), std::move(why_none)});
}

Result<std::vector<const Device*>> Registry::find_all(std::string_view name) const {
  std::vector<const Device*> found;
  const auto group = std::ranges::find(groups_, name, &Group::name);
  if (group == groups_.end()) {
    TESSERA_ASSIGN(const Device* device, find(name));
    found.push_back(device);
    return found;
  }
  if (group->members.empty()) return fail(ErrorCode::not_found, "{}: {}", name, group->why_none);
  for (const std::string& member : group->members) {
    TESSERA_ASSIGN(const Device* device, find(member));
    found.push_back(device);
  }
  return found;
}

Result<const BufferType*> Registry::find_buffer_type(std::string_view name) const {
  const auto find_in = [&](std::span<const std::unique_ptr<Device>> devices) -> const BufferType* {
    for (const auto& device : devices)
      for (const BufferType* type : device->buffer_types())
        if (type->name() == name) return type;
    return nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    if (const BufferType* type = find_in(devices_)) return type;
  }
  if (const BufferType* type = find_in(devices())) return type;
  std::vector<std::string_view> known;
  for (const auto& device : devices())
    for (const BufferType* type : device->buffer_types()) known.push_back(type->name());
  return fail(ErrorCode::not_found, "no memory named {} (there are: {})", name, fmt::join(known, ", "));
}

}  // namespace tessera
