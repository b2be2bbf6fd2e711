// POST /v1/completions of the OpenAI API.
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_openai_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
