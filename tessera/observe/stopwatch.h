// The time since the creation of an object.
#pragma once

#include <chrono>

namespace tessera::observe {

class Stopwatch {
 public:
  double microseconds() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }
  double seconds() const { return microseconds() * 1e-6; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tessera::observe
