// Learning rates by step.
#include "tessera/train/schedule.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

TEST(Schedule, RisesLinearlyToThePeak) {
  const Schedule schedule{.peak = 0.8f, .n_warmup_steps = 4, .n_steps = 100};
  EXPECT_FLOAT_EQ(schedule.learning_rate(0), 0.2f);
  EXPECT_FLOAT_EQ(schedule.learning_rate(2), 0.6f);
  EXPECT_FLOAT_EQ(schedule.learning_rate(3), 0.8f);
  EXPECT_FLOAT_EQ(schedule.learning_rate(4), 0.8f);
}

TEST(Schedule, ShapesEndAtTheFloor) {
  Schedule schedule{.peak = 1.0f, .floor = 0.1f, .n_warmup_steps = 10, .n_steps = 111};
  EXPECT_FLOAT_EQ(schedule.learning_rate(60), 0.55f);  // half way the cosine is 0
  EXPECT_FLOAT_EQ(schedule.learning_rate(110), 0.1f);
  EXPECT_FLOAT_EQ(schedule.learning_rate(500), 0.1f);
  schedule.shape = ScheduleShape::linear;
  EXPECT_FLOAT_EQ(schedule.learning_rate(35), 0.775f);
  EXPECT_FLOAT_EQ(schedule.learning_rate(110), 0.1f);
  schedule.shape = ScheduleShape::constant;
  EXPECT_FLOAT_EQ(schedule.learning_rate(110), 1.0f);
}

TEST(Schedule, OneStepIsPossible) { EXPECT_FLOAT_EQ((Schedule{.peak = 1.0f, .n_steps = 1}).learning_rate(0), 1.0f); }

TEST(Schedule, NamesAreKnown) {
  EXPECT_EQ(schedule_shape_from_name("linear"), ScheduleShape::linear);
  EXPECT_FALSE(schedule_shape_from_name("up").has_value());
}

}  // namespace
}  // namespace tessera::train
