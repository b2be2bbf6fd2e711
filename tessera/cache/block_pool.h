// The physical blocks of a paged cache, or the state slots of a recurrent one: a free list, and a reference count per
// block. take() returns the lowest free block, so that a mostly empty cache touches little memory.
//
// Retained references belong to no sequence. A block without other references is idle: it becomes free as soon as they
// are released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/index.h"

namespace tessera {

class BlockPool {
 public:
  /// The blocks are first, first + 1 and so on.
  explicit BlockPool(int32_t n_blocks, int32_t first = 0);

  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t n_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t n_references(int32_t block) const { return references_[place(block)]; }
  bool is_shared(int32_t block) const { return n_references(block) > 1; }
  int32_t n_idle() const { return n_idle_; }
  bool is_retained(int32_t block) const {
    return block >= first_ && block < first_ + n_blocks() && retained_[place(block)] > 0;
  }
  bool is_idle(int32_t block) const { return is_retained(block) && n_references(block) == retained_[place(block)]; }

  /// A block with one reference; n_free() must not be 0.
  int32_t take();
  void share(int32_t block);
  void release(int32_t block);
  /// Adds or removes a retained reference. The block must have a reference, or a retained one.
  void retain(int32_t block);
  void release_retained(int32_t block);

 private:
  size_t place(int32_t block) const { return to_size(block - first_); }
  void put_back(int32_t block);

  int32_t first_;
  std::vector<int32_t> references_;  // by block, with the retained ones
  std::vector<int32_t> retained_;    // by block
  std::vector<int32_t> free_;        // a min-heap
  int32_t n_idle_ = 0;
};

}  // namespace tessera
