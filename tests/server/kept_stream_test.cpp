// Kept streams below the API: bytes that are forgotten, readers that do not read, limits.
#include "tessera/server/api/kept_stream.h"

#include <gtest/gtest.h>

#include "tests/server/http_server_fixture.h"

namespace tessera::testing {
namespace {

using server::ByteBudget;
using server::Exchange;
using server::KeptStream;
using server::KeptStreamLimits;
using server::KeptStreams;
using server::StreamBuffer;

TEST(StreamBuffer, KeepsTheLastBytesByTheirPlace) {
  StreamBuffer buffer;
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    const std::string piece = std::to_string(i) + ",";
    for (std::string_view rest = piece; !rest.empty();) {
      if (buffer.room() == 0) buffer.add_block();
      rest.remove_prefix(buffer.fill(rest));
    }
    all += piece;
  }
  EXPECT_EQ(buffer.end(), all.size());
  EXPECT_EQ(buffer.read(0, all.size()), all);
  EXPECT_EQ(buffer.read(1023, 2), all.substr(1023, 2));  // the first block has 1024 bytes
  EXPECT_EQ(buffer.read(all.size(), 10), "");
  EXPECT_EQ(buffer.drop_block(), 1024u);
  EXPECT_EQ(buffer.begin(), 1024u);
  EXPECT_EQ(buffer.read(1024, all.size()), all.substr(1024));
  buffer.skip(7);
  EXPECT_EQ(buffer.n_held(), 0u);
  EXPECT_EQ(buffer.begin(), all.size() + 7);
  EXPECT_EQ(buffer.drop_block(), 0u);
}

class KeptStreamTest : public HttpServerTest {
 protected:
  std::shared_ptr<KeptStream> add(KeptStreams& streams, const std::string& id, const std::string& client = "me") {
    auto stream = std::make_shared<KeptStream>(streams, held, KeptStream::Name(client, id),
                                               [this, id] { stopped.push_back(id); });
    auto added = streams.add(stream);
    if (added) return stream;
    refusal = added.error();
    return nullptr;
  }
  // A client of /hold and its exchange.
  std::shared_ptr<Exchange> hold(HttpClient& client) {
    EXPECT_TRUE(client.get("/hold"));
    return next_exchange();
  }

  std::vector<HttpClient> clients{};
  std::shared_ptr<ByteBudget> held = std::make_shared<ByteBudget>(size_t{64} << 20);
  std::vector<std::string> stopped{};
  server::FieldError refusal{};
};

TEST_F(KeptStreamTest, AReaderThatDoesNotReadStopsNobody) {
  start();
  KeptStreams streams(KeptStreamLimits{});
  const auto stream = add(streams, "a");
  HttpClient lazy = connect(), eager = connect();
  stream->begin({}, hold(lazy));
  ASSERT_TRUE(stream->follow(hold(eager), 0));
  const HttpReply head = eager.read_head();
  constexpr size_t kPiece = 100'000, kPieces = 300;  // more than sockets and the buffer hold
  size_t n_read = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    stream->append(std::string(kPiece, 'x'));
    while (n_read < (i + 1) * kPiece) n_read += eager.read_piece(head).value().size();
  }
  stream->end();
  EXPECT_FALSE(eager.read_piece(head));
  EXPECT_EQ(n_read, kPiece * kPieces);
  EXPECT_EQ(stream->facts().end, kPiece * kPieces);
  const uint64_t n_kept = stream->facts().end - stream->facts().begin;
  EXPECT_GE(n_kept, streams.limits().stream_bytes - (size_t{64} << 10));
  EXPECT_LE(n_kept, streams.limits().stream_bytes + (size_t{64} << 10));
  // The other one is cut off, without a proper end.
  const HttpReply cut = lazy.read_answer();
  EXPECT_EQ(cut.status, 200);
  EXPECT_FALSE(cut.is_complete);

  HttpClient late = connect();
  const auto exchange = hold(late);
  EXPECT_EQ(stream->follow(exchange, 5).error().status, 400);
  ASSERT_TRUE(stream->follow(exchange, stream->facts().begin));
  EXPECT_EQ(late.read_answer().body.size(), n_kept);
}

TEST_F(KeptStreamTest, AReaderThatTakesNothingIsCutOff) {
  start();
  KeptStreams streams(KeptStreamLimits{.slow_reader_ms = 20});
  const auto stream = add(streams, "a");
  HttpClient lazy = connect();
  const auto exchange = hold(lazy);
  stream->begin({}, exchange);
  EXPECT_TRUE(wait_until([&] {
    stream->append(std::string(50'000, 'x'));
    streams.tick();
    return exchange->is_gone();
  }));
  EXPECT_FALSE(lazy.read_answer().is_complete);
  stream->append("x");
  EXPECT_FALSE(stream->facts().is_done);
}

TEST_F(KeptStreamTest, ReadersAreCounted) {
  start();
  KeptStreams streams(KeptStreamLimits{.n_readers = 2});
  const auto stream = add(streams, "a");
  HttpClient one = connect(), two = connect(), three = connect();
  EXPECT_EQ(stream->follow(hold(two), 0).error().status, 503);
  two = connect();
  stream->begin({.body = "head "}, hold(one));
  ASSERT_TRUE(stream->follow(hold(two), 0));
  const auto exchange = hold(three);
  EXPECT_EQ(stream->follow(exchange, 0).error().status, 429);
  one.close();
  EXPECT_TRUE(wait_until([&] { return stream->follow(exchange, 0).has_value(); }));
  stream->append("rest");
  stream->end();
  EXPECT_EQ(two.read_answer().body, "head rest");
  EXPECT_EQ(three.read_answer().body, "head rest");
}

TEST_F(KeptStreamTest, OnlyEndedStreamsMakeRoom) {
  start();
  KeptStreams streams(KeptStreamLimits{.stream_bytes = 1 << 20, .all_bytes = 250'000});
  const auto write = [&](const std::string& id, size_t n) {
    auto stream = add(streams, id);
    stream->begin({}, hold(clients.emplace_back(connect())));
    stream->append(std::string(n, 'x'));
    return stream;
  };
  auto running = write("running", 60'000);
  write("old", 60'000)->end();
  write("new", 60'000)->end();
  EXPECT_NE(streams.find({"me", "old"}), nullptr);
  write("more", 60'000)->end();
  EXPECT_EQ(streams.find({"me", "old"}), nullptr);
  EXPECT_NE(streams.find({"me", "new"}), nullptr);
  EXPECT_NE(streams.find({"me", "running"}), nullptr);
  // One alone forgets its own start.
  running->append(std::string(500'000, 'y'));
  EXPECT_EQ(streams.find({"me", "more"}), nullptr);
  EXPECT_GT(running->facts().begin, 0u);
  EXPECT_EQ(running->facts().end, 560'000u);
  EXPECT_LE(held->used(), 250'000u);
  running->end();
  streams.clear();
  running.reset();
  clients.clear();
  server_->stop();
  EXPECT_EQ(held->used(), 0u);
}

TEST_F(KeptStreamTest, WithoutMemoryForHttpNothingIsKept) {
  start();
  held = std::make_shared<ByteBudget>(100);
  KeptStreams streams(KeptStreamLimits{});
  const auto stream = add(streams, "a");
  HttpClient client = connect();
  stream->begin({}, hold(client));
  stream->append("text");
  EXPECT_EQ(stream->facts().begin, 4u);
  EXPECT_EQ(stream->facts().end, 4u);
  EXPECT_EQ(held->used(), 0u);
}

TEST_F(KeptStreamTest, StreamsAreCounted) {
  start();
  KeptStreams streams(KeptStreamLimits{.n_streams = 3, .n_client_streams = 2});
  std::vector<std::shared_ptr<KeptStream>> running{add(streams, "a"), add(streams, "b")};
  EXPECT_EQ(add(streams, "c"), nullptr);
  EXPECT_EQ(refusal.status, 429);
  running.push_back(add(streams, "a", "you"));
  EXPECT_EQ(add(streams, "b", "you"), nullptr);
  EXPECT_EQ(refusal.status, 503);
  EXPECT_TRUE(stopped.empty());
  // The same name replaces.
  EXPECT_NE(add(streams, "a"), nullptr);
  EXPECT_EQ(stopped, std::vector<std::string>{"a"});
  // One that has ended makes place.
  HttpClient client = connect();
  running[1]->begin({}, hold(client));
  running[1]->end();
  EXPECT_NE(add(streams, "c"), nullptr);
  EXPECT_EQ(streams.find({"me", "b"}), nullptr);
}

TEST_F(KeptStreamTest, AnEndedStreamIsForgottenAfterItsTime) {
  start();
  KeptStreams streams(KeptStreamLimits{.lifetime = std::chrono::milliseconds(0)});
  const auto stream = add(streams, "a");
  HttpClient client = connect();
  stream->begin({}, hold(client));
  streams.tick();
  EXPECT_EQ(streams.find({"me", "a"}), stream);
  stream->end();
  EXPECT_EQ(streams.find({"me", "a"}), stream);
  streams.tick();
  EXPECT_EQ(streams.find({"me", "a"}), nullptr);
}

}  // namespace
}  // namespace tessera::testing
