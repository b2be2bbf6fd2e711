#include "tessera/engine/weight_memory.h"

#include <algorithm>

namespace tessera {

void WeightMemory::add(Tensor& tensor, const BufferType& type) {
  // Types in order of first use, so that the plan reads the same every time.
  auto group = std::ranges::find(added_, &type, [](const auto& entry) { return entry.first; });
  if (group == added_.end()) group = added_.insert(group, {&type, {}});
  group->second.push_back(&tensor);
}

Result<> WeightMemory::plan(std::string_view name) {
  for (auto& [type, tensors] : added_) {
    auto placement = TensorPlacement::plan(*type, std::move(tensors));
    if (!placement) return forward_error(placement, name);
    placements_.push_back(std::move(*placement));
  }
  added_.clear();
  return {};
}

Result<> WeightMemory::allocate() {
  buffers_.clear();  // of an attempt that failed
  for (const TensorPlacement& placement : placements_) {
    TESSERA_ASSIGN(MultiBuffer buffer, placement.allocate(BufferUsage::weights));
    buffers_.push_back(std::move(buffer));
  }
  return {};
}

std::vector<MemoryPart> WeightMemory::planned(const Device& device) const {
  std::vector<MemoryPart> parts;
  for (const TensorPlacement& placement : placements_)
    parts.push_back({MemoryPart::Kind::weights, std::string(device.name()), std::string(placement.type().name()),
                     placement.bytes()});
  return parts;
}

std::vector<MemoryPart> WeightMemory::allocated(const Device& device) const {
  std::vector<MemoryPart> parts;
  for (const MultiBuffer& buffer : buffers_)
    parts.push_back({MemoryPart::Kind::weights, std::string(device.name()),
                     std::string(buffer.parts().front()->type().name()), buffer.size()});
  return parts;
}

}  // namespace tessera
