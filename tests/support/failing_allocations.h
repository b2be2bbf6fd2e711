// Allocations that fail: this replaces operator new of a test program, so one source file of it includes this.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace tessera::testing {

/// Calls of operator new until one fails; negative: none fails.
inline std::atomic<int64_t> n_until_failure{-1};
/// Whether only one call fails; else all from then on.
inline std::atomic<bool> fails_once{true};

inline bool allocation_fails_now() {
  if (n_until_failure.load() < 0) return false;
  const int64_t left = n_until_failure.fetch_sub(1);
  if (left > 0) return false;
  if (!fails_once) n_until_failure = 0;
  return left == 0;
}

inline void* allocate_or_null(size_t n, size_t alignment) {
  if (allocation_fails_now()) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(std::max<size_t>(n, 1))
             : std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
}

inline void* allocate_or_throw(size_t n, size_t alignment) {
  void* memory = allocate_or_null(n, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// No allocation fails while it lives.
class WorkingAllocations {
 public:
  WorkingAllocations() : left_(n_until_failure.exchange(-1)) {}
  ~WorkingAllocations() { n_until_failure = left_; }
  WorkingAllocations(const WorkingAllocations&) = delete;
  WorkingAllocations& operator=(const WorkingAllocations&) = delete;

 private:
  int64_t left_;
};

/// Calls a function with an allocation that fails: each stride-th one of its allocations in turn, alone and with all
/// that follow. The function returns whether it succeeded. Returns how often it failed; -1 if it went on to do so.
template <class Call>
int64_t count_failing_calls(int64_t stride, Call&& call) {
  constexpr int64_t kMost = 1'000'000;
  int64_t n_failed = 0;
  for (const bool once : {true, false})
    for (int64_t n = 0;; n += stride) {
      if (n >= kMost) return -1;
      fails_once = once;
      n_until_failure = n;
      const bool succeeded = call();
      const bool was_reached = n_until_failure.exchange(-1) <= 0;
      n_failed += succeeded ? 0 : 1;
      if (succeeded && !was_reached) break;
    }
  return n_failed;
}

}  // namespace tessera::testing

// Not inlined: GCC would take free() for a mistake where it sees the allocation.
void* operator new(size_t n) { return tessera::testing::allocate_or_throw(n, 1); }
void* operator new[](size_t n) { return tessera::testing::allocate_or_throw(n, 1); }
void* operator new(size_t n, std::align_val_t alignment) {
  return tessera::testing::allocate_or_throw(n, static_cast<size_t>(alignment));
}
void* operator new[](size_t n, std::align_val_t alignment) {
  return tessera::testing::allocate_or_throw(n, static_cast<size_t>(alignment));
}
void* operator new(size_t n, const std::nothrow_t&) noexcept { return tessera::testing::allocate_or_null(n, 1); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return tessera::testing::allocate_or_null(n, 1); }
void* operator new(size_t n, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return tessera::testing::allocate_or_null(n, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
