#include "tessera/server/http/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <utility>

#include "tessera/server/http/acceptor.h"
#include "tessera/server/http/io_thread.h"
#include "tessera/server/http/listener.h"
#include "tessera/server/http/shared_state.h"

namespace tessera::server {
namespace {

constexpr int kMaxIoThreads = 64;
constexpr int64_t kReservedDescriptors = 128;
constexpr int64_t kFewestConnections = 16;

// Raises the soft limit of descriptors to the hard one, and returns the connections that fit.
int64_t fitting_connections(int64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30)) - kReservedDescriptors;
  return std::min(wanted, std::max(most, kFewestConnections));
}

Result<> check_http_options(const HttpOptions& options) {
  if (options.n_threads < 1 || options.n_threads > kMaxIoThreads)
    return fail(ErrorCode::invalid_argument, "--threads-http: {}, want 1 to {}", options.n_threads, kMaxIoThreads);
  if (options.limits.n_connections < 1)
    return fail(ErrorCode::invalid_argument, "--max-connections: {}, want at least 1", options.limits.n_connections);
  if (options.tls_key_file.empty() != options.tls_certificate_file.empty())
    return fail(ErrorCode::invalid_argument, "--ssl-key-file and --ssl-cert-file: want both or neither");
  const std::string& prefix = options.api_prefix;
  if (!prefix.empty() && (!prefix.starts_with('/') || prefix.ends_with('/')))
    return fail(ErrorCode::invalid_argument, "--api-prefix {}: want a / at its beginning and none at its end", prefix);
  return {};
}

Result<std::shared_ptr<const KeyRing>> load_keys(const HttpOptions& options) {
  auto ring = std::make_shared<KeyRing>();
  for (size_t i = 0; i < options.api_keys.size(); ++i) {
    auto added = ring->add(options.api_keys[i], {});
    if (!added) return forward_error(added, fmt::format("--api-key {}", i + 1));
  }
  if (!options.api_key_file.empty()) {
    auto added = add_key_file(*ring, options.api_key_file);
    if (!added) return forward_error(added, "--api-key-file");
  }
  return ring;
}

Result<std::shared_ptr<const TlsContext>> load_tls(const HttpOptions& options) {
  if (options.tls_key_file.empty()) return nullptr;
  TESSERA_ASSIGN(std::shared_ptr<const TlsContext> context,
                 TlsContext::load(options.tls_key_file, options.tls_certificate_file));
  return context;
}

std::string machine_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

// The port of "http://host:port"; 0 for a Unix socket.
uint16_t port_in(const std::string& address) {
  uint16_t port = 0;
  const size_t colon = address.rfind(':');
  if (!address.starts_with("unix:")) std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  return port;
}

}  // namespace

class HttpServer::State {
 public:
  std::shared_ptr<SharedState> shared{};
  std::vector<std::shared_ptr<IoThread>> threads{};  // constant after the start
  std::unique_ptr<Acceptor> acceptor{};
  std::vector<std::string> addresses{};
  uint16_t port = 0;

  Result<> load();
  Result<> open();
  Result<> run();
  void stop();
};

Result<> HttpServer::State::load() {
  const HttpOptions& options = shared->options;
  TESSERA_ASSIGN(auto keys, load_keys(options));
  TESSERA_ASSIGN(auto tls, load_tls(options));
  const std::lock_guard lock(shared->mutex);
  shared->keys = std::move(keys);
  shared->tls = std::move(tls);
  return {};
}

Result<> HttpServer::State::open() {
  const HttpOptions& options = shared->options;
  const ListenOptions wanted{.hosts = options.hosts,
                             .port = options.port,
                             .reuse_port = options.reuse_port,
                             .is_tls = shared->tls != nullptr,
                             .only_loopback = !shared->has_keys && !options.insecure};
  TESSERA_ASSIGN(auto listeners, open_listeners(wanted));
  for (const Listener& listener : listeners) {
    addresses.push_back(listener.address);
    if (port == 0) port = port_in(listener.address);
  }
  for (int i = 0; i < options.n_threads; ++i) {
    auto thread = IoThread::create(shared, static_cast<size_t>(i));
    if (!thread) {
      close_listeners(listeners);
      return forward_error(thread);
    }
    threads.push_back(std::move(*thread));
    shared->threads.push_back(threads.back().get());
  }
  TESSERA_ASSIGN(acceptor, Acceptor::create(shared, std::move(listeners)));
  return {};
}

Result<> HttpServer::State::run() {
  threads.front()->set_tick([accepts = acceptor.get()] { return accepts->tick(); });
  for (const auto& thread : threads) TESSERA_TRY(thread->start());
  return {};
}

void HttpServer::State::stop() {
  for (const auto& thread : threads) thread->stop();
  acceptor.reset();
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, Router router) {
  TESSERA_TRY(check_http_options(options));
  options.limits.n_connections = fitting_connections(options.limits.n_connections);
  auto state = std::make_unique<State>();
  state->shared = std::make_shared<SharedState>(std::move(options), std::move(router));
  SharedState& shared = *state->shared;
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(state)));
  TESSERA_TRY(server->state_->load());
  shared.has_keys = !shared.keys->empty();
  shared.hosts = {.allowed = shared.options.allowed_hosts, .machine_name = machine_name()};
  shared.cors = {.origins = shared.options.cors_origins,
                 .methods = shared.options.cors_methods,
                 .headers = shared.options.cors_headers,
                 .credentials = shared.options.cors_credentials};
  if (shared.cors.origins.empty()) shared.cors.origins = shared.has_keys ? "*" : "localhost";
  TESSERA_TRY(server->state_->open());
  TESSERA_TRY(server->state_->run());
  return server;
}

std::vector<std::string> HttpServer::addresses() const { return state_->addresses; }

uint16_t HttpServer::port() const { return state_->port; }

HttpCounts HttpServer::counts() const {
  const SharedState& shared = *state_->shared;
  return {.n_reading = shared.phase_count(Phase::head) + shared.phase_count(Phase::body),
          .n_answering = shared.phase_count(Phase::answering),
          .n_idle = shared.phase_count(Phase::idle),
          .n_accepted = shared.n_accepted.load(std::memory_order_relaxed),
          .n_refused = shared.n_refused.load(std::memory_order_relaxed),
          .n_held_bytes = shared.held.used()};
}

size_t HttpServer::n_threads() const { return static_cast<size_t>(state_->shared->options.n_threads); }

void HttpServer::post(size_t io_thread, std::function<void()> task) {
  const auto& threads = state_->threads;
  if (io_thread < threads.size()) threads[io_thread]->post(std::move(task));
}

Result<> HttpServer::reload() { return state_->load(); }

void HttpServer::drain() {
  if (state_->shared->is_draining.exchange(true)) return;
  // A post after stop() does nothing.
  state_->threads.front()->post([acceptor = state_->acceptor.get()] { acceptor->close(); });
  for (const auto& thread : state_->threads) thread->post([target = thread.get()] { target->close_idle(); });
}

bool HttpServer::is_idle() const {
  const SharedState& shared = *state_->shared;
  return shared.phase_count(Phase::body) + shared.phase_count(Phase::answering) == 0;
}

void HttpServer::stop() { state_->stop(); }

}  // namespace tessera::server
