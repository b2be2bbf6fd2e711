// Heads of requests: each rule and each limit with its status, and pieces of any size.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tessera/server/http/head.h"
#include "tessera/server/http/target.h"

namespace tessera::server {
namespace {

constexpr std::string_view kPlainHead = "GET /a%20b?x=1&y=%26+z HTTP/1.1\r\nHost: h:80\r\nAccept: \t*/* \r\n\r\n";

// Reads a head in pieces of n bytes.
std::expected<RequestHead, HeadError> read_head_by(std::string_view bytes, size_t n, HeadLimits limits = {}) {
  HeadReader reader(limits);
  while (!bytes.empty() && !reader.is_complete() && !reader.error()) {
    const size_t taken = reader.push(bytes.substr(0, n));
    bytes.remove_prefix(taken);
  }
  if (reader.error()) return std::unexpected(*reader.error());
  if (!reader.is_complete()) return std::unexpected(HeadError{.status = 0, .message = "incomplete"});
  return reader.take();
}

// The status of the refusal, the same for whole heads and single bytes; 200: none.
int head_status(std::string_view bytes, HeadLimits limits = {}) {
  const auto whole = read_head_by(bytes, bytes.size(), limits), single = read_head_by(bytes, 1, limits);
  EXPECT_EQ(whole.has_value(), single.has_value());
  if (whole) return 200;
  EXPECT_EQ(whole.error().status, single.error().status);
  EXPECT_EQ(whole.error().message, single.error().message);
  return whole.error().status;
}

int status_with(std::string_view fields, std::string_view line = "GET / HTTP/1.1") {
  return head_status(std::string(line).append("\r\nHost: h\r\n").append(fields).append("\r\n"));
}

TEST(HttpHead, ParsesLineFieldsAndTarget) {
  const auto head = read_head_by(kPlainHead, kPlainHead.size());
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "GET");
  EXPECT_EQ(head->path, "/a b");
  ASSERT_EQ(head->query.size(), 2u);
  EXPECT_EQ(head->query[1].name, "y");
  EXPECT_EQ(head->query[1].value, "& z");
  EXPECT_EQ(head->host, "h:80");
  ASSERT_EQ(head->fields.size(), 2u);
  EXPECT_EQ(head->fields[1].name, "accept");
  EXPECT_EQ(head->fields[1].value, "*/*");
  EXPECT_TRUE(head->keeps_alive);
  EXPECT_FALSE(head->has_body());
}

TEST(HttpHead, LeavesTheBytesAfterIt) {
  HeadReader reader({});
  const std::string bytes = std::string(kPlainHead) + "rest";
  EXPECT_EQ(reader.push(bytes), kPlainHead.size());
  EXPECT_TRUE(reader.is_complete());
}

TEST(HttpHead, SkipsOneEmptyLineBeforeIt) {
  EXPECT_EQ(head_status("\r\n" + std::string(kPlainHead)), 200);
  EXPECT_EQ(head_status("\r\n\r\n" + std::string(kPlainHead)), 400);
  EXPECT_EQ(head_status(std::string("\r\n\0", 3) + std::string(kPlainHead)), 400);
}

TEST(HttpHead, RefusesBareLineFeeds) {
  EXPECT_EQ(head_status("GET / HTTP/1.1\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(head_status("GET / HTTP/1.1\r\nHost: h\r\nA: b\n\r\n"), 400);
  EXPECT_EQ(head_status("GET / HTTP/1.1\r\nHost: h\r\n\n"), 400);
  EXPECT_EQ(head_status("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

TEST(HttpHead, RefusesBareCarriageReturns) {
  EXPECT_EQ(status_with("A: b\rc\r\n"), 400);
  EXPECT_EQ(status_with("A: b\r\r\n"), 400);
  EXPECT_EQ(head_status("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

TEST(HttpHead, RefusesNulAndControlCharacters) {
  EXPECT_EQ(status_with(std::string_view("A: b\0c\r\n", 8)), 400);
  EXPECT_EQ(status_with("A: b\x01\r\n"), 400);
  EXPECT_EQ(status_with("A: b\x7f\r\n"), 400);
  EXPECT_EQ(status_with("A: b\tc\xe9\r\n"), 200);
}

TEST(HttpHead, RefusesFoldedLines) {
  EXPECT_EQ(status_with("A: b\r\n c\r\n"), 400);
  EXPECT_EQ(status_with("A: b\r\n\tc: d\r\n"), 400);
  EXPECT_EQ(head_status("GET / HTTP/1.1\r\n Host: h\r\n\r\n"), 400);
}

TEST(HttpHead, RefusesBadFieldNames) {
  EXPECT_EQ(status_with("A : b\r\n"), 400);
  EXPECT_EQ(status_with(": b\r\n"), 400);
  EXPECT_EQ(status_with("A b\r\n"), 400);
  EXPECT_EQ(status_with("A(: b\r\n"), 400);
}

TEST(HttpHead, TokensAndVisibleCharactersHaveTheirBounds) {
  EXPECT_EQ(status_with("", "azAZ09!~ / HTTP/1.1"), 200);
  for (const char other : {'/', ':', '@', '[', '{', '\x7f'})
    EXPECT_EQ(status_with("", std::string("G") + other + " / HTTP/1.1"), 400) << other;
  EXPECT_EQ(status_with("", "GET /!~ HTTP/1.1"), 200);
  EXPECT_EQ(status_with("", "GET /\x7f HTTP/1.1"), 400);
  const std::string text = "GET / HTTP/1.1\r\nHost: h\r\nAZ-az: b\r\n\r\n";
  EXPECT_EQ(read_head_by(text, text.size())->fields[1].name, "az-az");
}

TEST(HttpHead, HostsHaveTheirForm) {
  const auto status_of_host = [](const std::string& host) {
    return head_status("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"h", "h:1", "h:65535", "h:", "[::1]", "[a::f]", "[A::F]:80", "[::ffff:1.2.3.4]"})
    EXPECT_EQ(status_of_host(host), 200) << host;
  for (const char* host : {"h:123456", "h:a", "[", "[]", "[::1", "[::g]", "[::1]80", "[::1]:a", ":80", "a/b"})
    EXPECT_EQ(status_of_host(host), 400) << host;
}

TEST(HttpHead, RefusalsSayWhatIsWrong) {
  const auto message_of = [](const std::string& bytes) {
    const auto head = read_head_by(bytes, bytes.size());
    EXPECT_FALSE(head) << bytes;
    return head ? "" : head.error().message;
  };
  for (const char* line : {"GET", "GET /"})
    EXPECT_EQ(message_of(std::string(line) + "\r\nHost: h\r\n\r\n"),
              "Request line: want a method, a target and a version");
  const std::string begin = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (const char* blank : {" ", "\t"})
    EXPECT_EQ(message_of(begin + blank + "A: b\r\n\r\n"), "Field: folded lines are refused");
  EXPECT_EQ(message_of(begin + "A\r\n\r\n"), "Field 2: want a name and a colon");
  EXPECT_EQ(message_of(begin + "A: \x01\r\n\r\n"), "Field 2: control characters are refused");
}

TEST(HttpTarget, PercentSignsComeWithTwoDigits) {
  EXPECT_EQ(percent_decode("%41%5a%7A%39%10%01%fF%Aa"), "AZz9\x10\x01\xff\xaa");
  EXPECT_EQ(percent_decode("a%20"), "a ");
  EXPECT_EQ(percent_decode("+"), "+");
  EXPECT_EQ(percent_decode("+", Plus::space), " ");
  for (const char* text :
       {"%", "%4", "a%4", "%00", "%/1", "%:1", "%1/", "%1:", "%`1", "%g1", "%0g", "%g0", "%@1", "%G1"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

TEST(HttpHead, OnlyOptionsAskForAll) {
  EXPECT_EQ(status_with("", "OPTIONS * HTTP/1.1"), 200);
  EXPECT_EQ(status_with("", "OPTIONS a HTTP/1.1"), 400);
  EXPECT_EQ(status_with("", "OPTIONS /a HTTP/1.1"), 200);
}

TEST(HttpHead, WholeHeadsEndTheirLines) {
  for (const char* bytes : {"GET / HTTP/1.1", "GET / HTTP/1.1\r", "GET / HTTP/1.1\nHost: h\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost: h", "GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n"}) {
    const auto head = parse_head(bytes, {});
    ASSERT_FALSE(head) << bytes;
    EXPECT_NE(head.error().message.find("want CR LF at its end"), std::string::npos) << head.error().message;
  }
}

TEST(HttpHead, RefusesBadRequestLines) {
  for (const std::string_view line :
       {"GET /", "GET  HTTP/1.1", "GET / HTTP/1.1 ", "GET /a b HTTP/1.1", "G(T / HTTP/1.1", " GET / HTTP/1.1",
        "GET / HTTP/2.0", "GET / HTTP/1.2", "GET / http/1.1", "GET / HTTP/1.1x", "GET a HTTP/1.1", "GET * HTTP/1.1",
        "GET /#a HTTP/1.1", "GET /\xc3\xa4 HTTP/1.1", "PRI * HTTP/2.0", "GET ftp://h/ HTTP/1.1", ""})
    EXPECT_EQ(status_with("", line), 400) << line;
  EXPECT_EQ(status_with("", std::string(32, 'A') + " / HTTP/1.1"), 200);
  EXPECT_EQ(status_with("", std::string(33, 'A') + " / HTTP/1.1"), 400);
}

TEST(HttpHead, RefusesBadEscapes) {
  for (const std::string_view target : {"/%", "/%4", "/%zz", "/%00", "/?a=%00", "/?%=b"})
    EXPECT_EQ(status_with("", std::string("GET ").append(target).append(" HTTP/1.1")), 400) << target;
  std::string many = "/?";
  for (int i = 0; i < 256; ++i) many += "a&";
  EXPECT_EQ(status_with("", "GET " + many + " HTTP/1.1"), 200);
  EXPECT_EQ(status_with("", "GET " + many + "b HTTP/1.1"), 400);
}

TEST(HttpHead, DecodesAPathOnce) {
  const auto head = read_head_by("GET /%2541%2F+ HTTP/1.1\r\nHost: h\r\n\r\n", 100);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->path, "/%41/+");
}

TEST(HttpHead, WantsOneHost) {
  EXPECT_EQ(head_status("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(head_status("GET / HTTP/1.0\r\n\r\n"), 400);
  EXPECT_EQ(status_with("Host: h\r\n"), 400);
  for (const std::string_view host : {"", ":80", "a b", "a/b", "u@h", "h:x", "h:123456", "[::1", "[]", "[g]", "[::1]x"})
    EXPECT_EQ(head_status("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 400) << host;
  for (const std::string_view host : {"h", "h:", "127.0.0.1:1", "[::1]", "[::ffff:1.2.3.4]:8080", "a.b_c-d"})
    EXPECT_EQ(head_status("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 200) << host;
}

TEST(HttpHead, TakesAWholeUrlOfTheSameHost) {
  const auto head = read_head_by("GET http://h/a?b HTTP/1.1\r\nHost: H\r\n\r\n", 100);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->path, "/a");
  EXPECT_EQ(status_with("", "GET http://h HTTP/1.1"), 200);
  EXPECT_EQ(status_with("", "GET http://other/ HTTP/1.1"), 400);
  EXPECT_EQ(status_with("", "GET http:/// HTTP/1.1"), 400);
}

TEST(HttpHead, RefusesUnclearLengths) {
  EXPECT_EQ(status_with("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(status_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  for (const std::string_view length : {"", "-1", "+1", "1 2", "5, 5", "0x5", "5a", "12345678901234567890"})
    EXPECT_EQ(status_with("Content-Length: " + std::string(length) + "\r\n"), 400) << length;
  EXPECT_EQ(status_with("Content-Length: 1000000000000000000\r\n"), 200);  // a connection refuses it: 413
}

TEST(HttpHead, TakesNoTransferEncodingButChunked) {
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n"), 200);
  for (const std::string_view coding :
       {"", "gzip", "gzip, chunked", "chunked, chunked", "Chunked", "identity", "xchunked"})
    EXPECT_EQ(status_with("Transfer-Encoding: " + std::string(coding) + "\r\n"), 400) << coding;
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0"), 400);
}

TEST(HttpHead, RefusesCodedContent) {
  EXPECT_EQ(status_with("Content-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(status_with("Content-Encoding: identity, br\r\n"), 415);
  EXPECT_EQ(status_with("Content-Encoding: Identity\r\n"), 200);
}

TEST(HttpHead, RefusesUnknownExpectations) {
  EXPECT_EQ(status_with("Expect: something\r\n"), 417);
  const auto head = read_head_by("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n", 100);
  ASSERT_TRUE(head);
  EXPECT_TRUE(head->expects_continue);
}

TEST(HttpHead, KeepsAliveByVersionAndField) {
  const auto keeps = [](std::string_view version, std::string_view field) {
    const auto head =
        read_head_by("GET / HTTP/" + std::string(version) + "\r\nHost: h\r\n" + std::string(field) + "\r\n", 1);
    return head && head->keeps_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "Connection: x, Close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: close, keep-alive\r\n"));
}

TEST(HttpHead, LimitsTheTarget) {
  const HeadLimits limits{.target_bytes = 20};
  const auto line = [](size_t n) { return "GET /" + std::string(n - 1, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n"; };
  EXPECT_EQ(head_status(line(20), limits), 200);
  EXPECT_EQ(head_status(line(21), limits), 414);
  EXPECT_EQ(head_status("GET /" + std::string(9000, 'a')), 414);  // before its end
}

TEST(HttpHead, LimitsFields) {
  const auto fields = [](int n) {
    std::string head = "GET / HTTP/1.1\r\nHost: h\r\n";
    for (int i = 1; i < n; ++i) head += "A: b\r\n";
    return head + "\r\n";
  };
  EXPECT_EQ(head_status(fields(100)), 200);
  EXPECT_EQ(head_status(fields(101)), 431);
}

TEST(HttpHead, LimitsItsBytes) {
  const auto sized = [](size_t n) {
    const std::string begin = "GET / HTTP/1.1\r\nHost: h\r\nA: ", end = "\r\n\r\n";
    return begin + std::string(n - begin.size() - end.size(), 'a') + end;
  };
  EXPECT_EQ(head_status(sized(16 << 10)), 200);
  EXPECT_EQ(head_status(sized((16 << 10) + 1)), 431);
  EXPECT_EQ(head_status("GET / HTTP/1.1\r\nA: " + std::string(20000, 'a')), 431);  // before its end
}

TEST(HttpHead, ARefusalKnowsTheTarget) {
  EXPECT_EQ(read_head_by("GET /v1/messages HTTP/1.1\r\nA : b\r\n\r\n", 100).error().target, "/v1/messages");
  EXPECT_EQ(read_head_by("GET /v1/messages HTTP/1.1\r\nA: \n", 100).error().target, "/v1/messages");
}

TEST(HttpHead, HoldsNothingAfterwards) {
  HeadReader reader({});
  reader.push(kPlainHead);
  EXPECT_TRUE(reader.has_begun());
  ASSERT_TRUE(reader.take());
  EXPECT_FALSE(reader.has_begun());
  EXPECT_EQ(reader.push(kPlainHead), kPlainHead.size());
  EXPECT_TRUE(reader.is_complete());
}

}  // namespace
}  // namespace tessera::server
