// Frames, heartbeats and lost peers.
#include "tessera/mpi/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tessera/mpi/thread_network.h"
#include "tests/mpi/cluster.h"
#include "tests/support/wait.h"

namespace tessera::mpi {
namespace {

using Kind = NetworkFault::Kind;
using Text = std::vector<std::byte>;

Text text_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A rank with one peer.
class Side {
 public:
  Side(const ThreadNetwork& network, int rank, const LinkOptions& options)
      : link_(std::make_unique<Link>(network.of(rank), std::vector{1 - rank}, options)) {
    EXPECT_OK(link_->start({.received =
                                [this](int, Text message) {
                                  const std::lock_guard lock(mutex_);
                                  received_.push_back(std::move(message));
                                },
                            .ended =
                                [this](int, const std::optional<Error>& why) {
                                  const std::lock_guard lock(mutex_);
                                  ++n_ends_;
                                  end_ = why ? why->message() : "farewell";
                                }}));
  }
  Link& link() { return *link_; }
  void close() { link_.reset(); }
  std::vector<Text> received() {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  // "" while the peer is there.
  std::string end() {
    const std::lock_guard lock(mutex_);
    return n_ends_ > 1 ? "ended twice" : end_;
  }

 private:
  std::mutex mutex_;
  std::vector<Text> received_;
  std::string end_;
  int n_ends_ = 0;
  std::unique_ptr<Link> link_;  // destroyed first: its thread uses the other members
};

TEST(Link, MessagesOfAnySizeArriveInOrder) {
  const ThreadNetwork network({.latency = std::chrono::microseconds(20)});
  Side a(network, 0, testing::kPatientLink), b(network, 1, testing::kPatientLink);
  std::vector<Text> sent;
  for (const size_t n : {1, 999, 1000, 1001, 2000, 54321}) {
    sent.emplace_back(n, static_cast<std::byte>(n));
    ASSERT_OK(a.link().send(1, sent.back()));
    ASSERT_OK(b.link().send(0, sent.back()));
  }
  EXPECT_TRUE(testing::wait_until([&] { return b.received().size() == sent.size(); }));
  EXPECT_TRUE(testing::wait_until([&] { return a.received().size() == sent.size(); }));
  EXPECT_EQ(b.received(), sent);
  EXPECT_EQ(a.received(), sent);
  EXPECT_ERROR(a.link().send(2, text_of("x")), "no connection with rank 2");
  EXPECT_EQ(a.end() + b.end(), "");
}

TEST(Link, IdleRanksSendHeartbeats) {
  const ThreadNetwork network({});
  Side a(network, 0, testing::kPatientLink), b(network, 1, testing::kPatientLink);
  EXPECT_TRUE(testing::wait_until([&] { return network.n_sent(0, 1) >= 5 && network.n_sent(1, 0) >= 5; }));
  EXPECT_TRUE(a.received().empty());
}

TEST(Link, ARankThatEndsSaysSoAndSendsWhatIsQueued) {
  const ThreadNetwork network({});
  Side a(network, 0, testing::kPatientLink), b(network, 1, testing::kPatientLink);
  ASSERT_OK(b.link().send(0, Text(5000)));
  b.close();
  EXPECT_TRUE(testing::wait_until([&] { return a.end() == "farewell"; }));
  EXPECT_EQ(a.received().size(), 1u);
  EXPECT_ERROR(a.link().send(1, text_of("x")), "mpi:1 has ended");
}

TEST(Link, APeerThatIsGivenUpHearsWhy) {
  const ThreadNetwork network({});
  Side a(network, 0, testing::kPatientLink), b(network, 1, testing::kPatientLink);
  a.link().name_peer(1, "mpi:1 (hostb)");
  a.link().give_up(1, Error(ErrorCode::format, "nonsense"));
  EXPECT_TRUE(testing::wait_until([&] { return a.end() == "nonsense"; }));
  EXPECT_TRUE(testing::wait_until([&] { return b.end() == "rank 0 gave up: nonsense"; }));
  EXPECT_ERROR(a.link().send(1, text_of("x")), "nonsense");
}

// Frames 0 and 1 are two messages; the one after them is a heartbeat.
std::string end_after(Kind kind) {
  const ThreadNetwork network({.faults = {{.kind = kind, .from = 0, .to = 1, .message = 1}}});
  LinkOptions options = testing::kPatientLink;
  Side a(network, 0, options), b(network, 1, options);
  EXPECT_OK(a.link().send(1, Text(700)));
  EXPECT_OK(a.link().send(1, Text(700)));
  EXPECT_TRUE(testing::wait_until([&] { return !b.end().empty(); }));
  // The sender hears of it.
  EXPECT_TRUE(testing::wait_until([&] { return a.end() == "mpi:1 gave up: " + b.end(); })) << a.end();
  return b.end();
}

TEST(Link, FaultsOfFramesAreNoticedByTheNextFrame) {
  EXPECT_EQ(end_after(Kind::drop), "rank 0: frame 1 is missing, 2 came");
  EXPECT_EQ(end_after(Kind::duplicate), "rank 0: frame 1 came twice");
  EXPECT_EQ(end_after(Kind::truncate), "rank 0: frame 1 has 338 bytes, want 700");
}

TEST(Link, BytesThatAreNoFrameAreRefused) {
  const ThreadNetwork network({});
  Side b(network, 1, testing::kPatientLink);
  ASSERT_OK(network.of(0).post_send(1, 1, std::make_shared<Text>(40, std::byte{1})));
  EXPECT_TRUE(testing::wait_until([&] { return b.end() == "rank 0: bytes that are no frame: 0x1010101"; })) << b.end();
}

}  // namespace
}  // namespace tessera::mpi
