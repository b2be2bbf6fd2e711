#include "tessera/backend/tensor_memory.h"

#include <algorithm>

namespace tessera {

void TensorMemory::add(Tensor& tensor, const BufferType& type) {
  // Types in order of first use, so that the plan reads the same every time.
  auto group = std::ranges::find(added_, &type, [](const auto& entry) { return entry.first; });
  if (group == added_.end()) group = added_.insert(group, {&type, {}});
  group->second.push_back(&tensor);
}

Result<> TensorMemory::plan() {
  for (auto& [type, tensors] : added_) {
    TESSERA_ASSIGN(TensorPlacement placement, TensorPlacement::plan(*type, std::move(tensors)));
    placements_.push_back(std::move(placement));
  }
  added_.clear();
  return {};
}

Result<> TensorMemory::allocate(BufferUsage usage) {
  buffers_.clear();  // of an attempt that failed
  for (const TensorPlacement& placement : placements_) {
    TESSERA_ASSIGN(MultiBuffer buffer, placement.allocate(usage));
    buffers_.push_back(std::move(buffer));
  }
  return {};
}

std::vector<TypeBytes> TensorMemory::planned() const {
  std::vector<TypeBytes> bytes;
  for (const TensorPlacement& placement : placements_) bytes.push_back({&placement.type(), placement.bytes()});
  return bytes;
}

std::vector<TypeBytes> TensorMemory::allocated() const {
  std::vector<TypeBytes> bytes;
  for (const MultiBuffer& buffer : buffers_) bytes.push_back({&buffer.parts().front()->type(), buffer.size()});
  return bytes;
}

size_t total_bytes(std::span<const TypeBytes> bytes) {
  size_t total = 0;
  for (const TypeBytes& one : bytes) total += one.bytes;
  return total;
}

}  // namespace tessera
