// State that all connections of a server share: options, rules, keys, counters and the budget of held bytes. Constant
// after the start, or atomic, or under the mutex.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tessera/server/http/access.h"
#include "tessera/server/http/byte_budget.h"
#include "tessera/server/http/http_server.h"
#include "tessera/server/http/keys.h"
#include "tessera/server/http/tls.h"

namespace tessera::server {

class IoThread;

/// Phases of a connection. Each I/O thread has a list per phase, in the order of entry.
enum class Phase : uint8_t {
  head,       // TLS handshake, or a head that is not complete
  body,       // a body that is not complete
  answering,  // a request in progress
  idle,       // kept alive between requests
  closing,    // all is sent; what the client still sends is dropped, so that no reset destroys the answer
};
inline constexpr size_t kPhases = 5;

struct SharedState {
  SharedState(HttpOptions given, Router routes) : options(std::move(given)), router(std::move(routes)) {}

  HttpAnswer write_problem(const HttpProblem& problem) const;
  std::shared_ptr<const KeyRing> current_keys() const;
  std::shared_ptr<const TlsContext> current_tls() const;
  int64_t phase_count(Phase phase) const { return n_phase[static_cast<size_t>(phase)].load(std::memory_order_relaxed); }

  const HttpOptions options;
  const Router router;
  bool has_keys = false;
  HostRules hosts{};
  CorsRules cors{};
  const std::shared_ptr<ByteBudget> budget = std::make_shared<ByteBudget>(options.limits.held_bytes);
  ByteBudget& held = *budget;

  mutable std::mutex mutex{};
  std::shared_ptr<const KeyRing> keys{};    // under the mutex, as a reload replaces it
  std::shared_ptr<const TlsContext> tls{};  // under the mutex
  std::vector<IoThread*> threads{};         // constant, and alive while any of them runs

  std::atomic<bool> is_draining{false};
  std::atomic<int64_t> n_open{0};      // connections that count against the limit
  std::atomic<int64_t> n_refusing{0};  // those that get 503 for want of a connection
  std::array<std::atomic<int64_t>, kPhases> n_phase{};
  std::atomic<int64_t> n_accepted{0}, n_refused{0};
};

/// Milliseconds of a clock that never goes back.
inline int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tessera::server
