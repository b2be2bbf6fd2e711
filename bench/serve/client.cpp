// The HTTP client of load tests on epoll (client.h). Sockets are level-triggered: a socket whose bytes are not all read
// at once is reported again, so one fast stream cannot keep others waiting.
#include "bench/serve/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace tessera::load {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr int kSlowReceiveBytes = 4 << 10;  // the kernel's buffer must not read in place of a slow reader

/// Returns a connecting socket, or -1 with errno.
int connect_socket(const sockaddr_in& server, const Request& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (request.read_bytes_per_s >= 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSlowReceiveBytes, sizeof kSlowReceiveBytes);
  }
  bool ok = true;
  if (!request.source.empty()) {
    sockaddr_in local = {};
    local.sin_family = AF_INET;
    ok = inet_pton(AF_INET, request.source.c_str(), &local.sin_addr) == 1;
    // The port is chosen by connect(), which may use one port for several servers.
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    ok = ok && ::bind(fd, reinterpret_cast<const sockaddr*>(&local), sizeof local) == 0;
  }
  ok = ok && (::connect(fd, reinterpret_cast<const sockaddr*>(&server), sizeof server) == 0 || errno == EINPROGRESS);
  if (ok) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

struct Client::Connection {
  int fd = -1;
  uint64_t serial = 0;
  uint32_t watched = 0;  // events in the epoll set
  CallId call = 0;       // 0: idle or closed
  bool is_reused = false;
  bool has_answer_bytes = false;
  Request request;
  Handlers handlers;
  std::string out;
  size_t n_sent = 0;
  AnswerParser parser;
  EventSplitter events;
  Answer answer;

  bool is_slow() const { return call != 0 && request.read_bytes_per_s >= 0; }
};

Result<std::unique_ptr<Client>> Client::create(const std::string& host, int port) {
  sockaddr_in server = {};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<uint16_t>(port));
  const std::string address = host == "localhost" ? "127.0.0.1" : host;
  if (port < 1 || port > 65535) return fail(ErrorCode::invalid_argument, "port {}, want 1 to 65535", port);
  if (inet_pton(AF_INET, address.c_str(), &server.sin_addr) != 1) {
    return fail(ErrorCode::invalid_argument, "host '{}': want an IPv4 address or localhost", host);
  }
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return fail(ErrorCode::io, "epoll_create1: {}", std::strerror(errno));
  return std::unique_ptr<Client>(new Client(fmt::format("{}:{}", host, port), server, epoll));
}

Client::Client(const std::string& host, const sockaddr_in& server, int epoll)
    : host_(host), server_(server), epoll_(epoll), buffer_(kReadBytes) {}

Client::~Client() {
  for (const auto& [serial, connection] : connections_) ::close(connection->fd);
  ::close(epoll_);
}

double Client::now_ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

CallId Client::send(Request request, Handlers handlers) {
  const CallId call = ++last_call_;
  const double now = now_ms();
  const bool wants_new = request.fresh || request.read_bytes_per_s >= 0 || !request.raw.empty();
  Connection* connection = wants_new ? nullptr : take_idle(request.source);
  if (connection == nullptr) connection = open(request);
  if (connection == nullptr) {
    calls_[call] = nullptr;
    after(0, [this, call, now, handlers = std::move(handlers)] {
      if (calls_.erase(call) == 0) return;  // dropped meanwhile
      Answer answer;
      answer.outcome = Outcome::unreachable;
      answer.sent_ms = now;
      answer.ended_ms = now_ms();
      if (handlers.on_end) handlers.on_end(answer);
    });
    return call;
  }
  connection->call = call;
  connection->request = std::move(request);
  connection->handlers = std::move(handlers);
  connection->answer.sent_ms = now;
  connection->out = request_text(connection->request, host_);
  calls_[call] = connection;
  begin(*connection);
  return call;
}

Client::Connection* Client::take_idle(const std::string& source) {
  std::vector<uint64_t>& serials = idle_[source];
  while (!serials.empty()) {
    const auto found = connections_.find(serials.back());
    serials.pop_back();
    if (found == connections_.end()) continue;
    found->second->is_reused = true;
    return found->second.get();
  }
  return nullptr;
}

Client::Connection* Client::open(const Request& request) {
  const int fd = connect_socket(server_, request);
  if (fd < 0) return nullptr;
  auto connection = std::make_unique<Connection>();
  connection->fd = fd;
  connection->serial = ++last_serial_;
  epoll_event event = {.events = 0, .data = {.u64 = connection->serial}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  return (connections_[connection->serial] = std::move(connection)).get();
}

/// Prepares a connection for the request in `out`. The bytes leave when the loop finds the socket writable, so that no
/// callback runs inside send().
void Client::begin(Connection& connection) {
  connection.n_sent = 0;
  connection.has_answer_bytes = false;
  connection.parser.reset(connection.request.method == "HEAD" ? AnswerParser::Body::none : AnswerParser::Body::allowed);
  connection.events.reset();
  watch(connection);
  if (connection.is_slow()) after(1, [this, serial = connection.serial] { read_slowly(serial); });
}

void Client::watch(Connection& connection) {
  uint32_t wanted = connection.is_slow() ? 0u : static_cast<uint32_t>(EPOLLIN);
  if (connection.n_sent < connection.out.size()) wanted |= EPOLLOUT;
  if (wanted == connection.watched) return;
  epoll_event event = {.events = wanted, .data = {.u64 = connection.serial}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
  connection.watched = wanted;
}

void Client::drop(CallId call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  Connection* const connection = found->second;
  calls_.erase(found);
  if (connection != nullptr) close(*connection);
}

void Client::close(Connection& connection) {
  ::close(connection.fd);
  connection.fd = -1;
  connection.call = 0;
  const auto found = connections_.find(connection.serial);
  closed_.push_back(std::move(found->second));
  connections_.erase(found);
}

void Client::close_idle() {
  for (const auto& [source, serials] : idle_) {
    for (const uint64_t serial : serials) {
      if (const auto found = connections_.find(serial); found != connections_.end()) close(*found->second);
    }
  }
  idle_.clear();
}

void Client::after(double seconds, std::function<void()> f) {
  timers_.push({now_ms() + seconds * 1000, ++last_timer_, std::move(f)});
}

bool Client::run_until(const std::function<bool()>& done, double limit_s) {
  const double end_ms = now_ms() + limit_s * 1000;
  while (!done()) {
    const double left_ms = end_ms - now_ms();
    if (left_ms <= 0) return false;
    poll(left_ms);
  }
  return true;
}

void Client::run_for(double seconds) {
  run_until([] { return false; }, seconds);
}

void Client::poll(double limit_ms) {
  closed_.clear();
  if (!timers_.empty()) limit_ms = std::min(limit_ms, timers_.top().due_ms - now_ms());
  std::array<epoll_event, 256> events;
  const int wait_ms = static_cast<int>(std::ceil(std::clamp(limit_ms, 0.0, 1000.0)));
  const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const auto found = connections_.find(event.data.u64);  // an earlier event's callback may have closed it
    if (found != connections_.end()) serve(*found->second, event.events);
  }
  run_timers();
}

/// Runs the timers that are due now. Those that they set wait for the next round, so sockets are served in between.
void Client::run_timers() {
  const double now = now_ms();
  while (!timers_.empty() && timers_.top().due_ms <= now) {
    const std::function<void()> f = timers_.top().f;
    timers_.pop();
    f();
  }
}

void Client::serve(Connection& connection, uint32_t events) {
  if ((events & EPOLLOUT) != 0) write_some(connection);
  if (connection.fd < 0) return;
  const bool ended = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if ((events & EPOLLIN) != 0 || ended) read_some(connection);
}

void Client::write_some(Connection& connection) {
  const std::string& out = connection.out;
  const ssize_t n = ::send(connection.fd, out.data() + connection.n_sent, out.size() - connection.n_sent, MSG_NOSIGNAL);
  if (n >= 0) {
    connection.n_sent += static_cast<size_t>(n);
  } else if (errno != EAGAIN && errno != EINTR) {
    // A server that refuses a body answers and closes before it has read all: its answer may be there to read.
    read_some(connection);
    if (connection.fd < 0) return;
    connection.n_sent = out.size();
  }
  watch(connection);
}

void Client::read_some(Connection& connection) {
  const size_t n_wanted = connection.is_slow() ? static_cast<size_t>(connection.request.read_bytes_per_s) : kReadBytes;
  if (n_wanted == 0) return;
  const ssize_t n = ::recv(connection.fd, buffer_.data(), std::min(n_wanted, kReadBytes), 0);
  if (n > 0) return take(connection, std::string_view(buffer_.data(), static_cast<size_t>(n)));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  lose(connection);
}

void Client::read_slowly(uint64_t serial) {
  const auto found = connections_.find(serial);
  if (found == connections_.end() || !found->second->is_slow()) return;
  read_some(*found->second);
  after(1, [this, serial] { read_slowly(serial); });
}

void Client::take(Connection& connection, std::string_view bytes) {
  if (connection.call == 0) return close(connection);  // bytes that nobody asked for
  Answer& answer = connection.answer;
  const double now = now_ms();
  const size_t n_used = connection.parser.feed(bytes, answer.body);
  connection.has_answer_bytes = true;
  answer.status = connection.parser.status();
  const bool has_head = connection.parser.state() != AnswerParser::State::head;
  if (has_head && answer.head_ms == 0) answer.head_ms = now;
  if (has_head && answer.status == 200 && connection.handlers.on_event) {
    const std::string body = std::exchange(answer.body, {});
    connection.events.feed(body, [&](std::string_view data) {
      if (connection.call != 0) connection.handlers.on_event(data, now);  // a callback may have dropped the call
    });
  }
  if (connection.call == 0) return;
  const AnswerParser::State state = connection.parser.state();
  if (state == AnswerParser::State::failed || n_used < bytes.size()) return finish(connection, Outcome::malformed);
  if (state == AnswerParser::State::done) finish(connection, Outcome::answered);
}

/// Handles the end of the connection, or an error of the socket.
void Client::lose(Connection& connection) {
  if (connection.call == 0) return close(connection);
  if (retries(connection)) return;
  const bool is_connected = connection.has_answer_bytes || connection.n_sent > 0;
  connection.parser.end_of_file();
  const bool is_whole = connection.parser.state() == AnswerParser::State::done;
  finish(connection, is_whole ? Outcome::answered : is_connected ? Outcome::disconnected : Outcome::unreachable);
}

/// Sends a request again on a new connection if the server closed a kept-alive one while the request was on its way.
bool Client::retries(Connection& connection) {
  if (!connection.is_reused || connection.has_answer_bytes) return false;
  Connection* const next = open(connection.request);
  if (next == nullptr) return false;
  next->call = connection.call;
  next->request = std::move(connection.request);
  next->handlers = std::move(connection.handlers);
  next->answer = std::move(connection.answer);
  next->out = std::move(connection.out);
  calls_[next->call] = next;
  close(connection);
  begin(*next);
  return true;
}

void Client::finish(Connection& connection, Outcome outcome) {
  Answer answer = std::exchange(connection.answer, {});
  answer.outcome = outcome;
  answer.ended_ms = now_ms();
  answer.retry_after_s = connection.parser.retry_after_s();
  const Handlers handlers = std::move(connection.handlers);
  calls_.erase(connection.call);
  connection.call = 0;
  const bool is_sent = connection.n_sent == connection.out.size();
  const bool keeps = outcome == Outcome::answered && is_sent && connection.parser.keeps_alive() &&
                     connection.request.read_bytes_per_s < 0 && connection.request.raw.empty();
  if (keeps) {
    connection.out.clear();
    connection.n_sent = 0;
    idle_[connection.request.source].push_back(connection.serial);
  } else {
    close(connection);
  }
  if (handlers.on_end) handlers.on_end(answer);
}

int64_t raise_file_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

}  // namespace tessera::load
