// POST /v1/embeddings of the OpenAI API.
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

/// Reads the request and starts the embedding. Runs on a worker. Errors: 501 without embeddings, 400 without pooling.
FieldResult<> start_openai_embedding(ApiContext& context, ServedModel& model,
                                     const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
