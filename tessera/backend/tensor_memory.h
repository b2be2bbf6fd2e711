// Memory of a set of tensors in one or more types of buffers: planned while they are listed, allocated when they are
// needed. An engine has one for its model, an adapter and a cache one each for their own.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tessera/backend/allocate.h"

namespace tessera {

struct TypeBytes {
  const BufferType* type = nullptr;
  size_t bytes = 0;
};

class TensorMemory {
 public:
  /// The tensor, which must outlive this, will lie in a buffer of this type.
  void add(Tensor& tensor, const BufferType& type);
  /// Places what was added. Errors: those of TensorPlacement::plan().
  Result<> plan();
  /// Allocates what was planned, anew after an attempt that failed. Errors: out_of_memory.
  Result<> allocate(BufferUsage usage);

  /// By type of buffer, in the order in which types were first added; the bytes allocated are those planned.
  std::vector<TypeBytes> planned() const;
  std::vector<TypeBytes> allocated() const;
  std::span<const MultiBuffer> buffers() const { return buffers_; }

 private:
  std::vector<std::pair<const BufferType*, std::vector<Tensor*>>> added_;
  std::vector<TensorPlacement> placements_;
  std::vector<MultiBuffer> buffers_;  // of placements_
};

/// The sum over all types.
size_t total_bytes(std::span<const TypeBytes> bytes);

}  // namespace tessera
