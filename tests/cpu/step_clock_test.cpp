// The clock of steps: times of two threads, of which one leaves out a step.
#include "tessera/cpu/step_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tessera {
namespace {

using cpu::StepClock;

// A thread that is late makes the others wait. All parts together never exceed the time of the step.
TEST(StepClock, PartsOfALateThreadDoNotExceedTheStep) {
  StepClock clock(1, 2);
  clock.prepared(0, 0);
  clock.ended(0, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  clock.prepared(0, 1);
  clock.ended(0, 1);
  const StepClock::Times step = clock.times()[0];
  EXPECT_GT(step.prepare_us, 1000);
  EXPECT_GT(step.wait_us, 1000);
  EXPECT_LE(step.prepare_us + step.wait_us, step.us);
}

TEST(StepClock, StepsFollowEachOtherAndEndWithTheLastThread) {
  StepClock clock(3, 2);
  clock.ended(0, 0);
  clock.ended(0, 1);
  clock.prepared(1, 1);
  clock.prepared(1, 0);
  clock.ended(1, 1);
  clock.ended(1, 0);
  clock.ended(2, 0);  // thread 1 leaves out step 2
  const std::vector<StepClock::Times> times = clock.times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times[0].begin_us, 0);
  for (const size_t step : {0u, 1u}) {
    EXPECT_GT(times[step].us, 0);
    EXPECT_DOUBLE_EQ(times[step].begin_us + times[step].us, times[step + 1].begin_us);  // us is a rounded difference
    EXPECT_GE(times[step].wait_us, 0);
    EXPECT_LT(times[step].wait_us, times[step].us / 2);  // one of two threads does not wait, the other not always
  }
  EXPECT_EQ(times[0].prepare_us, 0);
  EXPECT_GT(times[1].prepare_us, 0);
  EXPECT_LT(times[1].prepare_us, times[1].us);
  EXPECT_DOUBLE_EQ(times[2].wait_us, times[2].us / 2);
}

}  // namespace
}  // namespace tessera
