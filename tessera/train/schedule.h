// The learning rate of each step: a linear warm-up, then a constant, linear or cosine decay to a floor.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::train {

enum class ScheduleShape : uint8_t { constant, linear, cosine };

/// "constant", "linear", "cosine".
std::optional<ScheduleShape> schedule_shape_from_name(std::string_view name);

struct Schedule {
  ScheduleShape shape = ScheduleShape::cosine;
  float peak = 1e-3f;  // at the end of the warm-up
  float floor = 0.1f;  // at the last step, as a share of the peak
  int64_t n_warmup_steps = 0;
  int64_t n_steps = 1;

  /// Returns the rate of step i >= 0. Steps from n_steps on have the rate of the last step.
  float learning_rate(int64_t i) const;
};

}  // namespace tessera::train
