// The memory of a set of tensors in one or more types of buffers. Planning allocates nothing and counts every byte, and
// allocation uses exactly those bytes.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tessera/backend/buffer.h"

namespace tessera {

struct TypeBytes {
  const BufferType* type = nullptr;
  size_t bytes = 0;
};

class TensorMemory {
 public:
  /// Adds a tensor, which must outlive this, to the buffers of a type.
  void add(Tensor& tensor, const BufferType& type);
  /// Assigns each tensor its buffer type and offset: by type, in the order of add(). A new buffer begins when a buffer
  /// has reached the type's largest size. Errors: limit (a tensor larger than that); a tensor that the type cannot
  /// hold.
  Result<> plan();
  /// Allocates the planned buffers and points each tensor at its own. May be called again after an error. Errors:
  /// out_of_memory; the tensors then have no buffers.
  Result<> allocate(BufferUsage usage);
  /// Sets all allocated bytes. Errors: those of Buffer::clear().
  Result<> clear(std::byte value);

  /// Bytes by type of buffer, in the order in which types were first added.
  std::vector<TypeBytes> planned() const;
  std::vector<TypeBytes> allocated() const;
  /// Several per type if a type's largest buffer is too small.
  std::span<const std::unique_ptr<Buffer>> buffers() const { return buffers_; }

 private:
  struct Part {
    const BufferType* type;
    size_t bytes = 0;
    std::vector<Tensor*> tensors{};
  };

  Result<> plan(Tensor& tensor, const BufferType& type);

  std::vector<std::pair<const BufferType*, std::vector<Tensor*>>> added_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // of parts_
};

/// Returns the sum over all types.
size_t total_bytes(std::span<const TypeBytes> bytes);

}  // namespace tessera
