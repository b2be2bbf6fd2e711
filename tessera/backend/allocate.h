// Places many tensors in as few buffers as a type allows. The plan is made without memory and tells every byte;
// allocating it takes exactly those bytes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/backend/buffer.h"

namespace tessera {

/// Several buffers of one type acting as one: a model may be larger than a device's largest buffer.
class MultiBuffer {
 public:
  size_t size() const;
  std::span<const std::unique_ptr<Buffer>> parts() const { return parts_; }
  Result<> clear(std::byte value);
  Result<> reset();

 private:
  friend class TensorPlacement;
  std::vector<std::unique_ptr<Buffer>> parts_;
};

class TensorPlacement {
 public:
  /// Gives each tensor its buffer type and offset, in order; a new part begins where the largest buffer is full.
  /// The tensors must outlive the placement. Errors: a tensor that the type cannot hold or that exceeds its largest
  /// buffer.
  static Result<TensorPlacement> plan(const BufferType& type, std::vector<Tensor*> tensors);

  const BufferType& type() const { return *type_; }
  size_t bytes() const;

  /// Allocates the parts and points each tensor at its own.
  Result<MultiBuffer> allocate(BufferUsage usage) const;

 private:
  const BufferType* type_ = nullptr;
  std::vector<size_t> part_bytes_;
  std::vector<Tensor*> tensors_;
  std::vector<size_t> part_of_tensor_;
};

}  // namespace tessera
