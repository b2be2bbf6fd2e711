// Events in Chrome's trace format (Google, "Trace Event Format") for Perfetto and chrome://tracing: complete events on
// tracks of one process, in microseconds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/inspect.h"

namespace tessera::observe {

class TraceEvents {
 public:
  using Clock = std::chrono::steady_clock;

  /// Creates the track of tokens. add_devices() adds the tracks of devices and copies.
  explicit TraceEvents(Clock::time_point begin);
  void add_devices(std::span<const Device* const> devices);

  /// Adds an event on the track of tokens.
  void add_phase(std::string_view name, Clock::time_point begin, Clock::time_point end);
  /// Adds a step: a phase of this name, and its slices, nodes and copies on the tracks of their devices.
  void add_step(std::string_view name, const StepView& step);
  /// Returns the end of the last step.
  Clock::time_point last_end() const { return last_end_; }

  /// Returns the contents of the file.
  std::string json() &&;

 private:
  void add_track(int track, std::string_view name);
  void add(std::string_view name, std::string_view category, int track, double begin_us, double us,
           std::string_view arguments);
  double us_of(Clock::time_point time) const {
    return std::chrono::duration<double, std::micro>(time - begin_).count();
  }

  Clock::time_point begin_, last_end_;
  std::string events_;
};

}  // namespace tessera::observe
