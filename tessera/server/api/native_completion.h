// POST /completion of llama-server.
#pragma once

#include "tessera/server/api/generation.h"

namespace tessera::server {

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_native_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
