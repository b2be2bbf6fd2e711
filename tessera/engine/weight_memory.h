// Device memory of weights: planned while they are listed, allocated when they are loaded. An engine has one for its
// model, an adapter one for its own tensors.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/backend/allocate.h"
#include "tessera/backend/backend.h"
#include "tessera/engine/memory_report.h"

namespace tessera {

class WeightMemory {
 public:
  /// The tensor, which must outlive this, will lie in a buffer of this type.
  void add(Tensor& tensor, const BufferType& type);
  /// Places what was added. Errors start with the name; see TensorPlacement::plan().
  Result<> plan(std::string_view name);
  /// Allocates what was planned, anew after an attempt that failed. Errors: out_of_memory.
  Result<> allocate();

  /// One part per type of buffer, in the order in which types were first added; the bytes allocated are those planned.
  std::vector<MemoryPart> planned(const Device& device) const;
  std::vector<MemoryPart> allocated(const Device& device) const;
  std::span<const MultiBuffer> buffers() const { return buffers_; }

 private:
  std::vector<std::pair<const BufferType*, std::vector<Tensor*>>> added_;
  std::vector<TensorPlacement> placements_;
  std::vector<MultiBuffer> buffers_;  // of placements_
};

}  // namespace tessera
