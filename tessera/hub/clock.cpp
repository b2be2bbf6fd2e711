#include "tessera/hub/clock.h"

#include <algorithm>
#include <random>
#include <thread>

namespace tessera::hub {

namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() override { return std::chrono::steady_clock::now(); }

  void sleep_until(TimePoint time, const CancelToken& cancel) override {
    constexpr std::chrono::milliseconds kSlice(50);
    while (now() < time && !cancel.cancelled()) std::this_thread::sleep_until(std::min(time, now() + kSlice));
  }

  double noise() override { return std::uniform_real_distribution<double>()(random_); }

 private:
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace

std::unique_ptr<Clock> create_system_clock() { return std::make_unique<SystemClock>(); }

}  // namespace tessera::hub
