// The time of steps by kind of work, beside the time at the peak rate that bounds the work: it shows what holds a model
// back.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/inspect.h"

namespace tessera::observe {

/// One kind of work in some steps.
struct WorkPart {
  std::string name;  // "products q4_0", "attention", "waiting for other threads"
  double us = 0;     // time that it took
  double macs = 0;   // multiply-adds
  double bytes = 0;  // of weights and KV cache that it read
  std::string_view
      bound;  // the peak that limits it: "int8", "int16", "f32" or "read"; "": work that a perfect machine saves
  double bound_us = 0;  // its time at that peak

  /// The time above the bound; 0 if the operands came from a cache faster than the memory.
  double lost_us() const { return std::max(us - bound_us, 0.0); }
};

struct TimeAccount {
  double us = 0;                  // of the steps, and of the time between them
  double bound_us = 0;            // of all parts
  std::vector<WorkPart> parts{};  // the greatest loss first
};

/// Adds up steps of a session with one sequence.
class TimeAccountant {
 public:
  /// peaks: of each device of the session's executor.
  TimeAccountant(std::vector<DevicePeaks> peaks, ActivationPrecision activations)
      : peaks_(std::move(peaks)), activations_(activations) {}

  /// Adds a step, whose first token has this position.
  void add(const StepView& step, int64_t position);
  /// Returns the account of the steps so far. total_us: their time together with the time between them.
  TimeAccount account(double total_us) const;

 private:
  struct Sums {
    double us = 0, macs = 0, bytes = 0, int8_us = 0, int16_us = 0, f32_us = 0, read_us = 0;
  };

  void add_work(Sums& part, const StepView& step, NodeId id, int64_t position) const;
  void add_nodes(const StepView& step, int64_t position);
  void add_gaps(const StepView& step);

  std::vector<DevicePeaks> peaks_;
  ActivationPrecision activations_;
  std::map<std::string, Sums> parts_;
  double steps_us_ = 0;
};

}  // namespace tessera::observe
