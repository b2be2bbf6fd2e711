// The threads for work that is not I/O.
#include "tessera/server/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/testing.h"

namespace tessera::server {
namespace {

// A thread more than asked for would run the second task while the first one waits.
TEST(WorkerThreads, AreAsManyAsAskedFor) {
  ASSERT_OK_AND_ASSIGN(const auto workers, Workers::create(1));
  std::promise<void> go, done;
  std::atomic<bool> has_second{false};
  workers->post([&] { go.get_future().wait(); });
  workers->post([&] {
    has_second = true;
    done.set_value();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_second);
  go.set_value();
  done.get_future().wait();
}

TEST(WorkerThreads, WorkSideBySide) {
  ASSERT_OK_AND_ASSIGN(const auto workers, Workers::create(2));
  std::promise<void> second, first;
  workers->post([&] {
    second.get_future().wait();
    first.set_value();
  });
  workers->post([&] { second.set_value(); });
  first.get_future().wait();
}

TEST(WorkerThreads, AtTheEndWhatWaitsIsDoneAndNothingMoreIsTaken) {
  ASSERT_OK_AND_ASSIGN(const auto workers, Workers::create(1));
  std::atomic<int> n_done{0};
  for (int i = 0; i < 10; ++i) workers->post([&] { ++n_done; });
  workers->stop();
  EXPECT_EQ(n_done, 10);
  workers->post([&] { ++n_done; });
  workers->stop();
  EXPECT_EQ(n_done, 10);
}

}  // namespace
}  // namespace tessera::server
