// The clock of retries. Tests replace it, so that they do not wait.
#pragma once

#include <chrono>
#include <memory>

#include "tessera/base/cancel.h"

namespace tessera::hub {

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Clock() = default;
  virtual TimePoint now() = 0;
  /// Returns at this time, or soon after a request to stop.
  virtual void sleep_until(TimePoint time, const CancelToken& cancel) = 0;
  /// A random number in [0, 1), so that several clients do not return at the same time.
  virtual double noise() = 0;
};

std::unique_ptr<Clock> create_system_clock();

}  // namespace tessera::hub
