// The physical blocks of a paged cache, or the state slots of a recurrent one: a free list, and a reference count per
// block. take() returns the lowest free block, so that a mostly empty cache touches little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/index.h"

namespace tessera {

class BlockPool {
 public:
  explicit BlockPool(int32_t n_blocks);

  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t n_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t n_references(int32_t block) const { return references_[to_size(block)]; }
  bool is_shared(int32_t block) const { return n_references(block) > 1; }

  /// A block with one reference; n_free() must not be 0.
  int32_t take();
  void share(int32_t block) { ++references_[to_size(block)]; }
  void release(int32_t block);

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a min-heap
};

}  // namespace tessera
