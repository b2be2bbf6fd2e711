// Messages between threads: order, latency, bandwidth, faults, deadlines, and the recorder.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/mpi/recorder.h"
#include "tessera/mpi/thread_network.h"
#include "tests/support/testing.h"

namespace tessera::mpi {
namespace {

using Kind = NetworkFault::Kind;
using std::chrono::microseconds;
using std::chrono::milliseconds;

std::vector<std::byte> numbered(size_t n, int value) {
  return std::vector<std::byte>(n, static_cast<std::byte>(value));
}

Bytes shared(std::vector<std::byte> bytes) { return std::make_shared<std::vector<std::byte>>(std::move(bytes)); }

Clock::time_point soon() { return Clock::now() + std::chrono::minutes(1); }

Result<> send_now(Transport& transport, int to, int tag, std::vector<std::byte> bytes) {
  TESSERA_ASSIGN(const auto ticket, transport.post_send(to, tag, shared(std::move(bytes))));
  TESSERA_TRY(wait_until(transport, ticket, soon()));
  return {};
}

Result<std::vector<std::byte>> receive_by(Transport& transport, int from, int tag, Clock::time_point deadline) {
  const Bytes room = shared(numbered(64, 0));
  TESSERA_ASSIGN(const auto ticket, transport.post_receive(from, tag, room));
  TESSERA_ASSIGN(const size_t n, wait_until(transport, ticket, deadline));
  room->resize(n);
  return *room;
}

TEST(ThreadNetwork, MessagesArriveInOrderByTag) {
  const ThreadNetwork network({.n_ranks = 3});
  for (const int value : {1, 2, 3}) ASSERT_OK(send_now(network.of(0), 2, value == 2 ? 8 : 7, numbered(5, value)));
  ASSERT_OK(send_now(network.of(1), 2, 7, numbered(6, 9)));
  Transport& receiver = network.of(2);
  EXPECT_EQ(receive_by(receiver, 1, 7, soon()).value(), numbered(6, 9));
  EXPECT_EQ(receive_by(receiver, 0, 8, soon()).value(), numbered(5, 2));
  EXPECT_EQ(receive_by(receiver, 0, 7, soon()).value(), numbered(5, 1));
  EXPECT_EQ(receive_by(receiver, 0, 7, soon()).value(), numbered(5, 3));
  EXPECT_EQ(network.n_sent(0, 2), 3u);
  EXPECT_EQ(network.n_sent(2, 0), 0u);
}

TEST(ThreadNetwork, AWaitEndsAtItsDeadline) {
  const ThreadNetwork network({});
  const Bytes room = shared(numbered(8, 0));
  ASSERT_OK_AND_ASSIGN(const auto ticket, network.of(1).post_receive(0, 1, room));
  EXPECT_ERROR(wait_until(network.of(1), ticket, Clock::now() + milliseconds(5)), "not complete at its deadline");
  EXPECT_ERROR(network.of(1).poll(ticket), "is void");
  // A receive that was given up takes no message.
  ASSERT_OK(send_now(network.of(0), 1, 1, numbered(3, 1)));
  EXPECT_EQ(receive_by(network.of(1), 0, 1, soon()).value(), numbered(3, 1));
  EXPECT_EQ(*room, numbered(8, 0));
}

TEST(ThreadNetwork, MessagesTakeTheirTime) {
  const ThreadNetwork network({.latency = milliseconds(5), .bytes_per_second = 1e4});
  const Clock::time_point begin = Clock::now();
  ASSERT_OK_AND_ASSIGN(const auto first, network.of(0).post_send(1, 1, shared(numbered(60, 1))));
  ASSERT_OK_AND_ASSIGN(const auto second, network.of(0).post_send(1, 1, shared(numbered(40, 2))));
  ASSERT_OK(wait_until(network.of(0), first, soon()));
  EXPECT_GE(Clock::now() - begin, milliseconds(6));
  ASSERT_OK(wait_until(network.of(0), second, soon()));
  EXPECT_GE(Clock::now() - begin, milliseconds(10));
  EXPECT_EQ(receive_by(network.of(1), 0, 1, soon()).value(), numbered(60, 1));
  EXPECT_EQ(receive_by(network.of(1), 0, 1, soon()).value(), numbered(40, 2));
  EXPECT_GE(Clock::now() - begin, milliseconds(15));
}

TEST(ThreadNetwork, FaultsHitTheirMessage) {
  ThreadNetwork network({.n_ranks = 2,
                         .faults = {{.kind = Kind::drop, .from = 0, .to = 1, .message = 1},
                                    {.kind = Kind::duplicate, .from = 0, .to = 1, .message = 2},
                                    {.kind = Kind::truncate, .from = 0, .to = 1, .message = 3},
                                    {.kind = Kind::delay, .from = 0, .to = 1, .message = 4, .delay = milliseconds(8)},
                                    {.kind = Kind::drop, .from = 1, .to = 0, .message = 7}}});
  const Clock::time_point begin = Clock::now();
  for (const int value : {0, 1, 2, 3, 4, 5}) ASSERT_OK(send_now(network.of(0), 1, 1, numbered(10, value)));
  Transport& receiver = network.of(1);
  for (const int value : {0, 2, 2}) EXPECT_EQ(receive_by(receiver, 0, 1, soon()).value(), numbered(10, value));
  EXPECT_EQ(receive_by(receiver, 0, 1, soon()).value(), numbered(5, 3));
  EXPECT_EQ(receive_by(receiver, 0, 1, soon()).value(), numbered(10, 4));
  EXPECT_GE(Clock::now() - begin, milliseconds(8));
  EXPECT_EQ(receive_by(receiver, 0, 1, soon()).value(), numbered(10, 5));
  network.silence(0);
  ASSERT_OK(send_now(network.of(0), 1, 1, numbered(10, 6)));
  EXPECT_ERROR(receive_by(receiver, 0, 1, Clock::now() + milliseconds(5)), "deadline");
}

TEST(ThreadNetwork, WrongRanksAndSmallRoomsAreErrors) {
  const ThreadNetwork network({});
  EXPECT_ERROR(network.of(0).post_send(2, 1, shared({})), "rank 2, want 0 to 1");
  const Bytes room = shared(numbered(4, 0));
  EXPECT_ERROR(network.of(0).post_receive(-1, 1, room), "rank -1, want 0 to 1");
  ASSERT_OK(send_now(network.of(0), 1, 1, numbered(5, 1)));
  ASSERT_OK_AND_ASSIGN(const auto ticket, network.of(1).post_receive(0, 1, room));
  EXPECT_ERROR(wait_until(network.of(1), ticket, soon()), "a message of 5 bytes, want at most 4");
}

// Each rank sends to the next one and receives from the one before it, on a thread of its own.
TEST(ThreadNetwork, RandomSchedulesArriveWhole) {
  const int n_schedules = testing::all_or_few(1000, 20);
  for (int seed = 0; seed < n_schedules; ++seed) {
    constexpr int kRanks = 3, kMessages = 20;
    const ThreadNetwork network({.n_ranks = kRanks, .latency = microseconds(seed % 5 * 20)});
    std::vector<int> n_right(kRanks, 0);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        Rng rng(static_cast<uint64_t>(seed * kRanks + rank));
        for (int i = 0; i < kMessages; ++i) {
          const bool sends_first = rank == 0 || rng.next_u32() % 2 == 0;
          const auto sent = numbered(rng.next_u32() % 60, i);
          if (sends_first && !send_now(network.of(rank), (rank + 1) % kRanks, 1, sent)) return;
          const auto got = receive_by(network.of(rank), (rank + kRanks - 1) % kRanks, 1, soon());
          n_right[static_cast<size_t>(rank)] += got && *got == numbered(got->size(), i) ? 1 : 0;
          if (!sends_first && !send_now(network.of(rank), (rank + 1) % kRanks, 1, sent)) return;
        }
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(n_right, std::vector<int>(kRanks, kMessages)) << "schedule " << seed;
  }
}

TEST(PollPause, IsAnEighthOfTheWait) {
  PollPause pause;
  const Clock::time_point begin = Clock::now();
  const auto after = [&](int us) { return pause.next(begin + microseconds(us)).count(); };
  EXPECT_EQ(after(0), 0);
  EXPECT_EQ(after(29), 0);
  EXPECT_EQ(after(30), 20);
  EXPECT_EQ(after(800), 100);
  EXPECT_EQ(after(5000), 200);
  pause.restart();
  EXPECT_EQ(after(5000), 0);
}

TEST(Recorder, NotesWhatIsComplete) {
  const ThreadNetwork network({});
  Recorder recorder(network.of(1), 3);
  EXPECT_EQ(recorder.rank(), 1);
  EXPECT_EQ(recorder.n_ranks(), 2);
  ASSERT_OK(send_now(recorder, 0, 4, numbered(9, 5)));
  ASSERT_OK(send_now(network.of(0), 1, 6, numbered(2, 7)));
  EXPECT_EQ(receive_by(recorder, 0, 6, soon()).value(), numbered(2, 7));
  EXPECT_ERROR(receive_by(recorder, 0, 6, Clock::now() + milliseconds(2)), "deadline");
  const auto messages = recorder.messages();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_FALSE(messages[0].is_received);
  EXPECT_EQ(messages[0].peer, 0);
  EXPECT_EQ(messages[0].tag, 4);
  EXPECT_EQ(messages[0].n_bytes, 9u);
  EXPECT_EQ(messages[0].bytes, numbered(3, 5));
  EXPECT_TRUE(messages[1].is_received);
  EXPECT_EQ(messages[1].tag, 6);
  EXPECT_EQ(messages[1].bytes, numbered(2, 7));
  EXPECT_LE(messages[1].begin, messages[1].end);
}

}  // namespace
}  // namespace tessera::mpi
