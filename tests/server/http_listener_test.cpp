// Listening sockets by themselves, and servers at the bounds of their options.
#include "tessera/server/http/listener.h"

#include <sys/stat.h>

#include <filesystem>

#include "tests/server/http_server_fixture.h"
#include "tests/support/closed_input.h"

namespace tessera::testing {
namespace {

using namespace server;
namespace fs = std::filesystem;

class Listening : public ::testing::Test {
 protected:
  void TearDown() override { close_listeners(listeners_); }
  Result<> open(ListenOptions options) {
    close_listeners(listeners_);
    TESSERA_ASSIGN(listeners_, open_listeners(options));
    return {};
  }
  std::vector<Listener> listeners_;
};

TEST_F(Listening, LoopbackAddressesNeedNoKey) {
  for (const std::string host : {"127.0.0.1", "127.3.4.5", "::1", "[::1]", "::ffff:127.0.0.1", "localhost"}) {
    SCOPED_TRACE(host);
    ASSERT_OK(open({.hosts = {host}}));
    for (const Listener& listener : listeners_) EXPECT_TRUE(listener.is_loopback);
  }
  for (const std::string host : {"128.0.0.1", "::", "::ffff:128.0.0.1", "::7f00:1", "2001:db8::1"})
    EXPECT_ERROR(open({.hosts = {host}}), "want --api-key");
  ASSERT_OK(open({.hosts = {"0.0.0.0"}, .only_loopback = false}));
  EXPECT_FALSE(listeners_[0].is_loopback);
}

TEST_F(Listening, BracketsBelongToTheAddress) {
  for (const std::string host : {"::1", "[::1]"}) {
    ASSERT_OK(open({.hosts = {host}}));
    EXPECT_TRUE(listeners_[0].address.starts_with("http://[::1]:")) << listeners_[0].address;
  }
  ASSERT_OK(open({.hosts = {"[::1]"}, .is_tls = true}));
  EXPECT_TRUE(listeners_[0].address.starts_with("https://[::1]:")) << listeners_[0].address;
  for (const std::string host : {"[]", "[::1", "::1]", "["})
    EXPECT_ERROR(open({.hosts = {host}}), "--host " + host + ":");
  EXPECT_ERROR(open({.hosts = {""}}), "an empty address");
}

TEST_F(Listening, AllHostsHaveOnePort) {
  ASSERT_OK(open({.hosts = {"127.0.0.1", "127.0.0.2", "::1"}}));
  ASSERT_EQ(listeners_.size(), 3u);
  const std::string& first = listeners_[0].address;
  const std::string port = first.substr(first.rfind(':'));
  EXPECT_EQ(listeners_[1].address, "http://127.0.0.2" + port);
  EXPECT_EQ(listeners_[2].address, "http://[::1]" + port);
}

TEST_F(Listening, TheAddressOfAllAloneIsThatOfBothFamilies) {
  ASSERT_OK(open({.hosts = {"::"}, .only_loopback = false}));
  const std::string& address = listeners_[0].address;
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_TRUE(HttpClient::connect(port).is_open()) << "by IPv4";
  ASSERT_OK(open({.hosts = {"0.0.0.0", "::"}, .only_loopback = false}));  // each has its own family
  EXPECT_EQ(listeners_.size(), 2u);
}

TEST_F(Listening, AnErrorClosesTheSocketsBefore) {
  const std::string path = temporary_path("before.sock");
  EXPECT_ERROR(open({.hosts = {path, write_temporary("taken.sock", "x")}}), "not a socket");
  EXPECT_FALSE(fs::exists(path));
  EXPECT_ERROR(open({.hosts = {temporary_path("no/such.sock")}}), "such.sock: No such file");
}

TEST_F(Listening, APathHasAMostLength) {
  const std::string folder = temporary_dir().string() + "/";
  const auto path_of = [&](size_t n) { return folder + std::string(n - folder.size() - 5, 'a') + ".sock"; };
  ASSERT_OK(open({.hosts = {path_of(107)}}));
  EXPECT_TRUE(fs::is_socket(path_of(107)));
  EXPECT_TRUE(listeners_[0].is_loopback);
  EXPECT_ERROR(open({.hosts = {path_of(108)}}), "108 bytes, limit 107");
}

TEST_F(Listening, AFileInPlaceOfTheSocketStays) {
  const std::string path = temporary_path("replaced.sock");
  ASSERT_OK(open({.hosts = {path}}));
  fs::rename(path, path + ".old");  // so that the new file has another inode
  write_temporary("replaced.sock", "precious");
  close_listeners(listeners_);
  EXPECT_EQ(read_all(path), "precious");
  fs::remove(path);
  ASSERT_OK(open({.hosts = {path}}));
  close_listeners(listeners_);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Listening, WorksWithDescriptorZero) {
  const std::string path = temporary_path("zero.sock");
  const ClosedInput closed;
  for (const std::string& host : {std::string("127.0.0.1"), path}) {
    SCOPED_TRACE(host);
    ASSERT_OK(open({.hosts = {host}}));
    EXPECT_EQ(listeners_[0].descriptor, 0);
    close_listeners(listeners_);
    EXPECT_FALSE(ClosedInput::is_taken());
  }
  ASSERT_OK(open({.hosts = {path}}));
  ::close(std::exchange(listeners_[0].descriptor, -1));
  listeners_.clear();  // the file stays, without a server
  ASSERT_TRUE(fs::exists(path));
  EXPECT_OK(open({.hosts = {path}}));
  close_listeners(listeners_);
  EXPECT_FALSE(ClosedInput::is_taken());
}

// --- servers

class HttpBounds : public HttpServerTest {};

TEST_F(HttpBounds, OptionsMayHaveTheirBounds) {
  for (const int n_threads : {1, 64}) {
    auto started = HttpServer::start({.port = 0, .n_threads = n_threads, .limits = {.n_connections = 1}}, {});
    ASSERT_OK(started);
    EXPECT_EQ((*started)->n_threads(), static_cast<size_t>(n_threads));
  }
}

TEST_F(HttpBounds, TheNameOfTheMachineIsAllowed) {
  char name[256] = "";
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  start();
  const auto status_of = [&](const std::string& host) {
    return answer_to("GET /health HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  EXPECT_EQ(status_of(name), 200);
  EXPECT_EQ(status_of("other.example"), 403);
}

// The client's socket is there before the descriptor is free, so the server's side of the connection gets it.
TEST_F(HttpBounds, AConnectionMayHaveDescriptorZero) {
  ClosedInput::give_input();
  start();
  const int client = http_detail::open_client_socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    const ClosedInput closed;
    ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_TRUE(wait_until([] { return ClosedInput::is_taken(); }));
    const std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    ASSERT_EQ(::send(client, request.data(), request.size(), 0), std::ssize(request));
    std::string answer;
    char bytes[1024];
    for (ssize_t n; (n = ::recv(client, bytes, sizeof bytes, 0)) > 0;) answer.append(bytes, static_cast<size_t>(n));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    ::close(client);
    EXPECT_TRUE(wait_until([] { return !ClosedInput::is_taken(); }));
  }
}

TEST_F(HttpBounds, AClientOfTheLoopbackAddressOfIPv6IsHere) {
  HttpOptions options;
  options.hosts = {"::1"};
  start(std::move(options));
  const int client = http_detail::open_client_socket(AF_INET6);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(server_->port());
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET /client HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(::send(client, request.data(), request.size(), 0), std::ssize(request));
  std::string answer;
  char bytes[1024];
  for (ssize_t n; (n = ::recv(client, bytes, sizeof bytes, 0)) > 0;) answer.append(bytes, static_cast<size_t>(n));
  ::close(client);
  EXPECT_TRUE(answer.ends_with("\r\n::1 0 here")) << answer;
}

TEST_F(HttpBounds, IdleConnectionsMakeRoomAgainAndAgain) {
  HttpOptions options;
  options.limits.n_connections = 3;
  start(std::move(options));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().get("/health")) << i;
    ASSERT_EQ(clients.back().read_answer().status, 200) << i;
    EXPECT_TRUE(wait_until([&] { return server_->counts().n_idle == std::min(i + 1, 3); }));
  }
  EXPECT_EQ(server_->counts().n_refused, 0u);
}

TEST_F(HttpBounds, ARefusedConnectionIsNoRequest) {
  HttpOptions options;
  options.limits.n_connections = 1;
  start(std::move(options));
  HttpClient first = connect();
  ASSERT_TRUE(first.get("/hold"));
  const auto exchange = next_exchange();
  HttpClient second = connect();
  EXPECT_EQ(second.read_answer().status, 503);
  EXPECT_EQ(server_->counts().n_refused, 1u);
  second.close();
  exchange->answer({.body = "x"});
  EXPECT_EQ(first.read_answer().body, "x");
  EXPECT_EQ(finished_statuses(1), std::vector<int>{200});
}

TEST_F(HttpBounds, CountsAreThoseOfThePhases) {
  start();
  EXPECT_TRUE(server_->is_idle());
  HttpClient reading = connect(), answering = connect(), idle = connect();
  ASSERT_TRUE(reading.send("GET /he"));
  ASSERT_TRUE(answering.get("/hold"));
  ASSERT_TRUE(idle.get("/health"));
  EXPECT_EQ(idle.read_answer().status, 200);
  const auto exchange = next_exchange();
  EXPECT_TRUE(wait_until([&] {
    const HttpCounts counts = server_->counts();
    return counts.n_reading == 1 && counts.n_answering == 1 && counts.n_idle == 1;
  }));
  EXPECT_EQ(server_->counts().n_accepted, 3u);
  EXPECT_FALSE(server_->is_idle());
  exchange->answer({.body = "x"});
  EXPECT_EQ(answering.read_answer().body, "x");
  EXPECT_TRUE(wait_until([&] { return server_->is_idle(); }));
}

}  // namespace
}  // namespace tessera::testing
