// A budget of bytes that several threads take from.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace tessera::server {

/// Bytes that several owners may hold together.
class ByteBudget {
 public:
  explicit ByteBudget(size_t limit) : limit_(limit) {}

  /// Takes n bytes unless they would pass the limit.
  bool take(size_t n) {
    if (used_.fetch_add(n, std::memory_order_relaxed) + n <= limit_) return true;
    give(n);
    return false;
  }
  /// Takes n bytes in any case: heads and refusals, which are small.
  void take_anyway(size_t n) { used_.fetch_add(n, std::memory_order_relaxed); }
  void give(size_t n) { used_.fetch_sub(n, std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> used_{0};
  size_t limit_;
};

/// Bytes of a budget, given back at the end.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(HeldBytes&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  HeldBytes& operator=(HeldBytes&&) = delete;
  ~HeldBytes() { release(); }

  /// Takes more bytes until there are n.
  bool grow(ByteBudget& budget, size_t n) {
    if (!budget.take(n - n_)) return false;
    budget_ = &budget;
    n_ = n;
    return true;
  }
  void release() {
    if (budget_ != nullptr) budget_->give(std::exchange(n_, 0));
  }

 private:
  ByteBudget* budget_ = nullptr;
  size_t n_ = 0;
};

}  // namespace tessera::server
