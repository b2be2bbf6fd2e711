// A flag that requests a stop. It is shared between the requester (a signal handler, another thread) and the work,
// which polls it. A request is a lock-free store, so signal handlers may make it. Nothing is interrupted by force.
#pragma once

#include <atomic>

namespace tessera {

class CancelToken {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }

  /// Makes the token usable again. Call it only while no work polls the token.
  void reset() noexcept { cancelled_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> cancelled_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "cancel() runs in signal handlers");
};

}  // namespace tessera
