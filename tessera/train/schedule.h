// The learning rate of a step: it rises linearly during the warm-up, then follows a shape down to a floor.
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

  /// Of step 0 <= i < n_steps; steps behind the last have the floor.
  float learning_rate(int64_t i) const;
};

}  // namespace tessera::train
