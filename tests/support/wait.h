// Waiting for something that another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace tessera::testing {

/// Waits until a condition holds, for at most a minute.
template <class F>
bool wait_until(F condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace tessera::testing
