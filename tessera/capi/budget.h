// The memory that the models and sessions of a runtime have, and its limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tessera/base/result.h"

namespace tessera::capi {

class Budget {
 public:
  /// limit in bytes; 0: none.
  explicit Budget(uint64_t limit) : limit_(limit == 0 ? UINT64_MAX : limit) {}
  Budget(const Budget&) = delete;

  uint64_t used() const { return used_.load(); }
  uint64_t left() const { return limit_ - used(); }

  /// Error: out_of_memory (beyond the limit); then nothing is taken.
  Result<> take(uint64_t bytes, std::string_view name) {
    uint64_t before = used_.load();
    do {
      if (bytes > limit_ - before)
        return fail(ErrorCode::out_of_memory, "{}: takes {} bytes, {} are left of the runtime's budget of {}", name,
                    bytes, limit_ - before, limit_);
    } while (!used_.compare_exchange_weak(before, before + bytes));
    return {};
  }
  void give_back(uint64_t bytes) { used_.fetch_sub(bytes); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

/// Bytes taken from a budget, which must outlive it.
class BudgetShare {
 public:
  BudgetShare() = default;
  BudgetShare(BudgetShare&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetShare& operator=(BudgetShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BudgetShare() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }

  /// Error: that of Budget::take().
  static Result<BudgetShare> take(Budget& from, uint64_t bytes, std::string_view name) {
    TESSERA_TRY(from.take(bytes, name));
    BudgetShare share;
    share.budget_ = &from;
    share.bytes_ = bytes;
    return share;
  }

 private:
  Budget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tessera::capi
