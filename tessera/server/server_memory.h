// The memory of a server beside its models, as bounds that its options set. `tessera plan` prints them.
#pragma once

#include <cstddef>

#include "tessera/server/server.h"

namespace tessera::server {

/// Bounds in bytes.
struct ServerMemory {
  size_t http = 0;         // bodies and unsent answers, those of streams as well
  size_t connections = 0;  // with heads that are being read
  size_t queue = 0;        // tokens of waiting prompts
  size_t responses = 0;    // stored answers
  size_t grammars = 0;     // compiled ones of a model

  size_t total() const { return http + connections + queue + responses + grammars; }
};

ServerMemory server_memory(const ServerOptions& options, const QueueLimits& queue);

}  // namespace tessera::server
