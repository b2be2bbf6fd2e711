#include "tessera/server/server_memory.h"

#include "tessera/base/index.h"

namespace tessera::server {

namespace {

constexpr size_t kConnectionBytes = 1 << 10;  // of an idle one, measured
constexpr size_t kTlsBytes = 48 << 10;        // of OpenSSL, for one connection
constexpr size_t kHeadShare = 4;              // at most 1/4 of the connections have no complete head
constexpr size_t kTokenCopies = 2;            // of a waiting prompt: in its task and in its sequence

}  // namespace

ServerMemory server_memory(const ServerOptions& options, const QueueLimits& queue) {
  const HttpLimits& limits = options.http.limits;
  const bool has_tls = !options.http.tls_certificate_file.empty();
  const size_t n_connections = to_size(limits.n_connections);
  return {.http = limits.held_bytes,
          .connections = n_connections * (kConnectionBytes + (has_tls ? kTlsBytes : 0)) +
                         n_connections / kHeadShare * limits.head_bytes,
          .queue = to_size(queue.n_tokens) * sizeof(int32_t) * kTokenCopies,
          .responses = options.api.stored_response_bytes,
          .grammars = GrammarCache::kDefaultBytes};
}

}  // namespace tessera::server
