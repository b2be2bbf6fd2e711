#include "tessera/backend/allocate.h"

#include <numeric>

#include "tessera/base/checked.h"

namespace tessera {

size_t MultiBuffer::size() const {
  size_t total = 0;
  for (const auto& part : parts_) total += part->size();
  return total;
}

Result<> MultiBuffer::clear(std::byte value) {
  for (const auto& part : parts_) TESSERA_TRY(part->clear(value));
  return {};
}

Result<> MultiBuffer::reset() {
  for (const auto& part : parts_) TESSERA_TRY(part->reset());
  return {};
}

Result<TensorPlacement> TensorPlacement::plan(const BufferType& type, std::vector<Tensor*> tensors) {
  TensorPlacement placement;
  placement.type_ = &type;
  for (Tensor* tensor : tensors) {
    auto exact = type.tensor_bytes(tensor->dtype, tensor->shape());
    if (!exact) return forward_error(exact, tensor->name);
    const auto bytes = checked_round_up(*exact, type.alignment());
    if (!bytes || *bytes > type.max_size())
      return fail(ErrorCode::limit, "tensor {}: {} bytes, the largest {} buffer holds {}", tensor->name, *exact,
                  type.name(), type.max_size());
    if (placement.part_bytes_.empty() || *bytes > type.max_size() - placement.part_bytes_.back())
      placement.part_bytes_.push_back(0);
    tensor->buffer_type = &type;
    tensor->buffer = nullptr;
    tensor->offset = placement.part_bytes_.back();
    placement.part_bytes_.back() += *bytes;
    placement.part_of_tensor_.push_back(placement.part_bytes_.size() - 1);
  }
  placement.tensors_ = std::move(tensors);
  return placement;
}

size_t TensorPlacement::bytes() const { return std::accumulate(part_bytes_.begin(), part_bytes_.end(), size_t{0}); }

Result<MultiBuffer> TensorPlacement::allocate(BufferUsage usage) const {
  MultiBuffer buffers;
  for (const size_t bytes : part_bytes_) {
    TESSERA_ASSIGN(auto part, type_->allocate(bytes, usage));
    buffers.parts_.push_back(std::move(part));
  }
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i]->buffer = buffers.parts_[part_of_tensor_[i]].get();
  return buffers;
}

}  // namespace tessera
