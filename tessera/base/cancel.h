// The request to stop: one flag shared between whoever asks (a signal handler, another thread) and the work
// that polls it. Asking is a lock-free store, so it is safe in a signal handler; nothing is interrupted by
// force.
#pragma once

#include <atomic>

namespace tessera {

class CancelToken {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }

  /// Makes the token usable again; only while no work polls it.
  void reset() noexcept { cancelled_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> cancelled_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "cancel() runs in signal handlers");
};

}  // namespace tessera
