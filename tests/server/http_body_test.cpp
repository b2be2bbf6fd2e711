// Bodies of requests: chunks in pieces of any size, and each refusal.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tessera/server/http/body.h"

namespace tessera::server {
namespace {

struct BodyOutcome {
  std::string body{};
  size_t n_taken = 0;
  bool is_complete = false;
  int status = 0;
  bool operator==(const BodyOutcome&) const = default;
};

BodyOutcome read_body_by(BodyReader reader, std::string_view bytes, size_t n) {
  BodyOutcome outcome;
  while (outcome.n_taken < bytes.size() && !reader.is_complete() && !reader.error()) {
    const std::string_view piece = bytes.substr(outcome.n_taken, n);
    const size_t n_before = outcome.body.size(), most = reader.max_decoded(piece.size());
    outcome.n_taken += reader.push(piece, outcome.body);
    EXPECT_LE(outcome.body.size() - n_before, most);
  }
  outcome.is_complete = reader.is_complete();
  outcome.status = reader.error() ? reader.error()->status : 0;
  return outcome;
}

BodyOutcome read_chunks(std::string_view bytes, uint64_t max_bytes = 100) {
  const BodyOutcome whole = read_body_by(BodyReader::in_chunks(max_bytes), bytes, bytes.size());
  for (const size_t n : {1, 2, 3, 7})
    EXPECT_EQ(read_body_by(BodyReader::in_chunks(max_bytes), bytes, n), whole) << n << " " << bytes;
  return whole;
}

TEST(HttpBody, TakesItsLength) {
  for (const size_t n : {1, 3, 100}) {
    const auto outcome = read_body_by(BodyReader::with_length(5), "hello, more", n);
    EXPECT_EQ(outcome, (BodyOutcome{"hello", 5, true, 0}));
  }
  EXPECT_TRUE(BodyReader::with_length(0).is_complete());
}

TEST(HttpBody, DecodesChunks) {
  EXPECT_EQ(read_chunks("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nnext"), (BodyOutcome{"abc0123456789", 28, true, 0}));
  EXPECT_EQ(read_chunks("0\r\n\r\n"), (BodyOutcome{"", 5, true, 0}));
  EXPECT_EQ(read_chunks("0003;a=\"b\"\r\n\r\n\x01\r\n000\r\n\r\n").body, "\r\n\x01");
}

TEST(HttpBody, DigitsOfChunksAreHexadecimal) {
  for (const auto& [digit, n] : {std::pair('1', 1), {'9', 9}, {'a', 10}, {'f', 15}, {'A', 10}, {'F', 15}}) {
    const std::string data(static_cast<size_t>(n), 'x');
    EXPECT_EQ(read_chunks(std::string(1, digit) + "\r\n" + data + "\r\n0\r\n\r\n").body, data) << digit;
  }
  for (const char other : {'/', ':', '`', 'g', '@', 'G'})
    EXPECT_EQ(read_chunks(std::string(1, other) + "\r\n").status, 400) << other;
}

TEST(HttpBody, DropsTrailers) {
  const auto outcome = read_chunks("1\r\na\r\n0\r\nHost: other\r\nX: y\r\n\r\n");
  EXPECT_TRUE(outcome.is_complete);
  EXPECT_EQ(outcome.body, "a");
}

TEST(HttpBody, RefusesBadChunks) {
  for (const std::string_view bytes :
       {"\r\n", "g\r\n", "-1\r\n", " 1\r\n", "1 \r\n", "0x1\r\n", ";a\r\n", "1\n", "1\ra", "1\r\nab", "1\r\na\n",
        "1\r\na\rb", "1;\x01\r\n", "0\r\n\n", "0\r\nA\n", "0\r\nA\rb", "0\r\n\x01"}) {
    const auto outcome = read_chunks(bytes);
    EXPECT_EQ(outcome.status, 400) << bytes;
    EXPECT_FALSE(outcome.is_complete);
  }
}

TEST(HttpBody, LimitsTheLineOfAChunk) {
  EXPECT_EQ(read_chunks(std::string(63, '0') + "1\r\na\r\n0\r\n\r\n").body, "a");
  EXPECT_EQ(read_chunks(std::string(64, '0') + "1\r\na\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(read_chunks("1;" + std::string(63, 'x')).status, 400);
}

TEST(HttpBody, LimitsTrailers) {
  const auto trailer = [](size_t n) { return "0\r\n" + std::string(n - 4, 'a') + "\r\n\r\n"; };
  EXPECT_TRUE(read_chunks(trailer(4096)).is_complete);
  EXPECT_EQ(read_chunks(trailer(4097)).status, 400);
}

TEST(HttpBody, LimitsDecodedBytes) {
  EXPECT_TRUE(read_chunks("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 5).is_complete);
  const auto outcome = read_chunks("3\r\nabc\r\n3\r\nde", 5);
  EXPECT_EQ(outcome.status, 413);
  EXPECT_EQ(outcome.body, "abc");
  for (const std::string_view size :
       {"ffffffffffffffff", "10000000000000000", "fffffffffffffffffffff", "7fffffffffffffff"})
    EXPECT_EQ(read_chunks(std::string(size) + "\r\n").status, 413) << size;
}

}  // namespace
}  // namespace tessera::server
