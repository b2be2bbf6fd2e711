// The last accepted tokens of a chain, in a ring buffer whose size is fixed when the chain is created.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::sample {

class History {
 public:
  explicit History(size_t capacity) : ring_(capacity) {}

  size_t size() const { return size_; }

  /// The token that is `age` tokens older than the latest one; age < size().
  int32_t operator[](size_t age) const { return ring_[(next_ + ring_.size() - 1 - age) % ring_.size()]; }

  void push(int32_t token) {
    if (ring_.empty()) return;
    ring_[next_] = token;
    next_ = (next_ + 1) % ring_.size();
    size_ = std::min(size_ + 1, ring_.size());
  }

  void clear() { next_ = size_ = 0; }

 private:
  std::vector<int32_t> ring_;
  size_t next_ = 0;
  size_t size_ = 0;
};

}  // namespace tessera::sample
