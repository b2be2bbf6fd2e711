#include "tessera/cache/block_pool.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tessera/base/index.h"

namespace tessera {

BlockPool::BlockPool(int32_t n_blocks, int32_t first)
    : first_(first), references_(to_size(n_blocks), 0), retained_(references_.size(), 0), free_(references_.size()) {
  std::iota(free_.begin(), free_.end(), first);  // ascending: already a min-heap
}

int32_t BlockPool::take() {
  std::ranges::pop_heap(free_, std::greater{});
  const int32_t block = free_.back();
  free_.pop_back();
  references_[place(block)] = 1;
  return block;
}

void BlockPool::share(int32_t block) {
  if (is_idle(block)) --n_idle_;
  ++references_[place(block)];
}

void BlockPool::release(int32_t block) {
  if (--references_[place(block)] == 0) return put_back(block);
  if (is_idle(block)) ++n_idle_;
}

void BlockPool::retain(int32_t block) {
  ++references_[place(block)];
  ++retained_[place(block)];
}

void BlockPool::release_retained(int32_t block) {
  --retained_[place(block)];
  if (--references_[place(block)] > 0) return;
  --n_idle_;
  put_back(block);
}

void BlockPool::put_back(int32_t block) {
  free_.push_back(block);
  std::ranges::push_heap(free_, std::greater{});
}

}  // namespace tessera
