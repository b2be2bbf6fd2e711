#include "tessera/backend/tensor_memory.h"

#include <algorithm>

#include "tessera/base/checked.h"

namespace tessera {

namespace {

void count(std::vector<TypeBytes>& sums, const BufferType& type, size_t bytes) {
  if (sums.empty() || sums.back().type != &type) sums.push_back({&type, 0});
  sums.back().bytes += bytes;
}

}  // namespace

void TensorMemory::add(Tensor& tensor, const BufferType& type) {
  // Types are in the order of first use, so that the plan is deterministic.
  auto group = std::ranges::find(added_, &type, [](const auto& entry) { return entry.first; });
  if (group == added_.end()) group = added_.insert(group, {&type, {}});
  group->second.push_back(&tensor);
}

Result<> TensorMemory::plan() {
  for (const auto& [type, tensors] : added_)
    for (Tensor* tensor : tensors) TESSERA_TRY(plan(*tensor, *type));
  added_.clear();
  return {};
}

Result<> TensorMemory::plan(Tensor& tensor, const BufferType& type) {
  auto exact = type.tensor_bytes(tensor.dtype, tensor.shape());
  if (!exact) return forward_error(exact, tensor.name);
  const auto bytes = checked_round_up(*exact, type.alignment());
  if (!bytes || *bytes > type.max_size())
    return fail(ErrorCode::limit, "tensor {}: {} bytes, the largest {} buffer holds {}", tensor.name, *exact,
                type.name(), type.max_size());
  if (parts_.empty() || parts_.back().type != &type || *bytes > type.max_size() - parts_.back().bytes)
    parts_.push_back({.type = &type});
  Part& part = parts_.back();
  tensor.buffer_type = &type;
  tensor.buffer = nullptr;
  tensor.offset = part.bytes;
  part.bytes += *bytes;
  part.tensors.push_back(&tensor);
  return {};
}

Result<> TensorMemory::allocate(BufferUsage usage) {
  buffers_.clear();  // of an attempt that failed
  for (const Part& part : parts_) {
    auto buffer = part.type->allocate(part.bytes, usage);
    if (!buffer) {
      buffers_.clear();
      return forward_error(buffer);
    }
    buffers_.push_back(std::move(*buffer));
  }
  for (size_t i = 0; i < parts_.size(); ++i)
    for (Tensor* tensor : parts_[i].tensors) tensor->buffer = buffers_[i].get();
  return {};
}

Result<> TensorMemory::clear(std::byte value) {
  for (const auto& buffer : buffers_) TESSERA_TRY(buffer->clear(value));
  return {};
}

std::vector<TypeBytes> TensorMemory::planned() const {
  std::vector<TypeBytes> sums;
  for (const Part& part : parts_) count(sums, *part.type, part.bytes);
  return sums;
}

std::vector<TypeBytes> TensorMemory::allocated() const {
  std::vector<TypeBytes> sums;
  for (const auto& buffer : buffers_) count(sums, buffer->type(), buffer->size());
  return sums;
}

size_t total_bytes(std::span<const TypeBytes> bytes) {
  size_t total = 0;
  for (const TypeBytes& one : bytes) total += one.bytes;
  return total;
}

}  // namespace tessera
