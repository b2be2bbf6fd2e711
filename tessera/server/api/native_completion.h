// POST /completion of llama-server.
#pragma once

#include <vector>

#include "tessera/server/api/generation.h"
#include "tessera/server/json/generation_fields.h"

namespace tessera::server {

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_native_completion(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

/// Starts a generation that answers as POST /completion does, from prompts that are tokens.
FieldResult<> start_native_prompts(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                                   ReadGenerationFields read, std::vector<std::vector<int32_t>> prompts);

}  // namespace tessera::server
