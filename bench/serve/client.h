// HTTP client for load tests: one thread, one epoll set, thousands of connections. Scenarios send requests, receive
// events by callback, and run the loop until their condition holds.
//
// Callbacks run inside run_until() only, never inside send() or drop(). A callback may send, drop and set timers, also
// for its own call. Times are milliseconds since the start of the client, read once per readable socket.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/serve/http.h"
#include "tessera/base/result.h"

namespace tessera::load {

enum class Outcome {
  answered,      // a whole answer came, of whatever status
  unreachable,   // no connection
  disconnected,  // the server closed the connection before the end of the answer
  malformed,     // bytes that are not HTTP
};

struct Answer {
  Outcome outcome = Outcome::answered;
  int status = 0;  // 0: no head came
  std::string body;
  int64_t retry_after_s = -1;
  double sent_ms = 0;  // when send() was called, so that connecting counts
  double head_ms = 0;  // 0: no head came
  double ended_ms = 0;
};

struct Handlers {
  /// One event of a stream with status 200. Without this handler the body is kept in the answer.
  std::function<void(std::string_view data, double now_ms)> on_event;
  /// The end of the call: exactly once, unless it is dropped first.
  std::function<void(const Answer&)> on_end;
};

using CallId = uint64_t;

class Client {
 public:
  ///   host  an IPv4 address, or "localhost"
  static Result<std::unique_ptr<Client>> create(const std::string& host, int port);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  /// Begins a call on an idle connection of the same source address, or on a new one.
  CallId send(Request request, Handlers handlers);
  /// Ends a call by closing its connection, as a client that leaves. Its handlers are not called again.
  void drop(CallId call);
  /// Closes the connections that carry no call.
  void close_idle();

  /// Calls f once, `seconds` from now.
  void after(double seconds, std::function<void()> f);
  /// Serves sockets and timers until done() or the time limit. Returns whether it ended by done().
  bool run_until(const std::function<bool()>& done, double limit_s);
  void run_for(double seconds);

  double now_ms() const;
  size_t n_calls() const { return calls_.size(); }
  const std::string& host() const { return host_; }
  /// Whether clients of other addresses can be imitated: every address of 127.0.0.0/8 is local.
  bool is_loopback() const { return (ntohl(server_.sin_addr.s_addr) >> 24) == 127; }

 private:
  struct Connection;
  struct Timer {
    double due_ms;
    uint64_t number;  // keeps timers of the same moment in order
    std::function<void()> f;
    bool operator<(const Timer& other) const {
      return due_ms != other.due_ms ? due_ms > other.due_ms : number > other.number;
    }
  };

  Client(const std::string& host, const sockaddr_in& server, int epoll);

  Connection* take_idle(const std::string& source);
  Connection* open(const Request& request);
  void begin(Connection& connection);
  void watch(Connection& connection);
  void poll(double limit_ms);
  void run_timers();
  void serve(Connection& connection, uint32_t events);
  void write_some(Connection& connection);
  void read_some(Connection& connection);
  void take(Connection& connection, std::string_view bytes);
  void read_slowly(uint64_t serial);
  void lose(Connection& connection);
  bool retries(Connection& connection);
  void finish(Connection& connection, Outcome outcome);
  void close(Connection& connection);

  std::string host_;  // with the port, as in the Host field
  sockaddr_in server_;
  int epoll_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  uint64_t last_serial_ = 0, last_call_ = 0, last_timer_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;  // by serial
  std::unordered_map<CallId, Connection*> calls_;
  std::unordered_map<std::string, std::vector<uint64_t>> idle_;  // serials by source; some may be closed
  std::vector<std::unique_ptr<Connection>> closed_;              // freed when no callback can be running on them
  std::priority_queue<Timer> timers_;
  std::vector<char> buffer_;
};

/// Raises the limit of open files to the hard limit. Returns the number of files that may be open.
int64_t raise_file_limit();

}  // namespace tessera::load
