// The HTTP server: listens, reads requests within fixed limits, passes them to the handlers of a router, and sends
// their answers. It knows nothing of models. docs/serving.md states the rules of the protocol and the limits.
//
// Each connection belongs to one I/O thread and one strand. A request whose head is refused is never read further.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

struct HttpLimits {
  int64_t n_connections = 8192;  // lowered to RLIMIT_NOFILE - 128
  size_t head_bytes = 16 << 10;
  size_t n_fields = 100;
  size_t target_bytes = 8 << 10;
  size_t body_bytes = 32 << 20;
  size_t held_bytes = 256 << 20;  // bodies and answers of all connections
  int64_t head_ms = 10'000;
  int64_t body_stall_ms = 30'000;  // without progress
  int64_t body_ms = 300'000;       // in all
  int64_t idle_ms = 75'000;        // between requests
  int64_t n_requests = 10'000;     // per connection
  size_t stray_bytes = 16 << 10;   // bytes kept that arrive while a request is being answered
};

struct HttpOptions {
  std::vector<std::string> hosts{"127.0.0.1"};  // addresses, or paths that end in .sock
  uint16_t port = 8080;                         // 0: any free port
  bool reuse_port = false;
  std::string api_prefix{};
  int n_threads = 1;
  std::vector<std::string> api_keys{};
  std::string api_key_file{};
  std::string tls_key_file{}, tls_certificate_file{};
  std::vector<std::string> allowed_hosts{};  // beside loopback names; "any": all
  std::string cors_origins{};                // empty: localhost without keys, * with keys
  std::string cors_methods{"GET, POST, DELETE, OPTIONS"};
  std::string cors_headers{"*"};
  bool cors_credentials = true;
  bool insecure = false;  // allows other addresses than loopback without keys
  HttpLimits limits{};

  /// The body of a refusal in the dialect of its path. Must not throw.
  std::function<HttpAnswer(const HttpProblem&)> write_problem{};
  /// Called on an I/O thread at the end of each answer, with its status (499: the client left). May be empty.
  std::function<void(const HttpRequest&, int status)> on_finished{};
};

struct HttpCounts {
  int64_t n_reading = 0;    // connections without a complete head or body
  int64_t n_answering = 0;  // with a request in progress
  int64_t n_idle = 0;       // kept alive between requests
  int64_t n_accepted = 0;   // since the start
  int64_t n_refused = 0;    // since the start: closed for want of a connection
  size_t n_held_bytes = 0;  // bodies and unsent answers; HttpLimits::held_bytes is the limit
};

class HttpServer {
 public:
  /// Opens all sockets and begins to answer. Errors: invalid_argument (options, with the flag's name); io (a socket, a
  /// key file or a certificate, with its name).
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, Router router);
  /// Calls stop().
  ~HttpServer();

  /// The addresses in use, as "http://127.0.0.1:8080", "unix:PATH".
  std::vector<std::string> addresses() const;
  /// The TCP port in use; 0: there is none.
  uint16_t port() const;
  HttpCounts counts() const;
  size_t n_threads() const;

  /// Runs a task on an I/O thread.
  void post(size_t io_thread, std::function<void()> task);

  /// Reads keys and certificates again. Errors as start(); then the old ones stay in use.
  Result<> reload();

  /// Accepts no more connections and closes idle ones. Requests in progress go on, and their connections then close.
  void drain();
  /// Whether no connection has a request in progress.
  bool is_idle() const;
  /// Closes everything and joins the threads.
  void stop();

 private:
  class State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::server
