// POST /embedding of llama-server.
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

/// Reads the request and starts the embedding. Runs on a worker. Errors: 501 without embeddings.
FieldResult<> start_native_embedding(ApiContext& context, ServedModel& model,
                                     const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
