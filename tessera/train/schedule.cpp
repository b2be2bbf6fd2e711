#include "tessera/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::train {

std::optional<ScheduleShape> schedule_shape_from_name(std::string_view name) {
  if (name == "constant") return ScheduleShape::constant;
  if (name == "linear") return ScheduleShape::linear;
  if (name == "cosine") return ScheduleShape::cosine;
  return std::nullopt;
}

float Schedule::learning_rate(int64_t i) const {
  if (i < n_warmup_steps) return peak * static_cast<float>(i + 1) / static_cast<float>(n_warmup_steps);
  if (shape == ScheduleShape::constant) return peak;
  const int64_t n_after = std::max<int64_t>(n_steps - n_warmup_steps - 1, 1);
  const double share = std::min(static_cast<double>(i - n_warmup_steps) / static_cast<double>(n_after), 1.0);
  const double left = shape == ScheduleShape::linear ? 1 - share : (1 + std::cos(std::numbers::pi * share)) / 2;
  return static_cast<float>(double{peak} * (double{floor} + (1 - double{floor}) * left));
}

}  // namespace tessera::train
