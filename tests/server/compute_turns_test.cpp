// Turns of computing, with a clock that the test moves.
#include "tessera/server/run/compute_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace tessera::server {
namespace {

using std::chrono::milliseconds;

class Turns : public ::testing::Test {
 protected:
  void pass(int ms) { now_ms_ += ms; }
  void wait_for_waiting(size_t n) const {
    while (turns.n_waiting() != n) std::this_thread::yield();
  }

  std::atomic<int> now_ms_{0};
  ComputeTurns turns{[this] { return ComputeTurns::Clock::time_point(milliseconds(now_ms_.load())); }};
  ComputeTurns::Party slow{turns}, fast{turns};
  std::string log;  // by the one whose turn it is
};

TEST_F(Turns, PartiesGetTheSameShareOfTime) {
  slow.take();
  std::thread other([this] {
    for (int i = 0; i < 6; ++i) {
      fast.take();
      log += 'f';
      pass(19);
      if (i < 5) wait_for_waiting(1);
    }
    fast.release();
  });
  for (int i = 0; i < 2; ++i) {
    wait_for_waiting(1);
    log += 's';
    pass(50);
    slow.take();
  }
  slow.release();
  other.join();
  // 50 ms are followed by as many turns of 19 ms as make up for them.
  EXPECT_EQ(log, "sfffsfff");
}

TEST_F(Turns, APartyThatRestedIsAheadByATenthOfASecondAtMost) {
  slow.take();
  pass(1000);
  slow.take();  // nobody else waits
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    for (int i = 0; i < 50 && !is_over; ++i) {
      fast.take();
      log += 'f';
      pass(20);
      while (turns.n_waiting() != 1 && !is_over) std::this_thread::yield();
    }
    fast.release();
  });
  wait_for_waiting(1);
  pass(1);
  slow.take();
  const std::string before = log;
  is_over = true;
  slow.release();
  other.join();
  // With 20 ms a turn. Without a bound it would be 50.
  EXPECT_EQ(before, "ffffff");
}

TEST_F(Turns, OfEqualPartiesTheFirstToJoinIsNext) {
  ComputeTurns::Party last{turns};
  for (int i = 0; i < 20; ++i) {
    last.take();
    const auto take = [this](ComputeTurns::Party& party, char name) {
      party.take();
      log += name;
      party.release();
    };
    std::thread second([&] { take(fast, 'f'); });
    wait_for_waiting(1);
    std::thread first([&] { take(slow, 's'); });
    wait_for_waiting(2);
    last.release();
    first.join();
    second.join();
    ASSERT_EQ(log, "sf");
    log.clear();
  }
}

TEST_F(Turns, APartyKnowsWhetherOthersStream) {
  EXPECT_FALSE(slow.others_stream());
  slow.set_streaming(true);
  EXPECT_FALSE(slow.others_stream());
  EXPECT_TRUE(fast.others_stream());
  slow.set_streaming(false);
  EXPECT_FALSE(fast.others_stream());
}

TEST_F(Turns, TheEndOfAPartyEndsItsTurn) {
  {
    ComputeTurns::Party third(turns);
    third.take();
    EXPECT_TRUE(third.has_turn());
  }
  slow.take();
  EXPECT_TRUE(slow.has_turn());
  slow.release();
  EXPECT_FALSE(slow.has_turn());
  slow.release();
}

}  // namespace
}  // namespace tessera::server
