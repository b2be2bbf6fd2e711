// POST /api/generate and POST /api/chat of the Ollama API: from the body to a generation.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/api/ollama_models.h"

namespace tessera::server {

// These read the request and start the generation. They run on workers.
FieldResult<> start_ollama_generate(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);
FieldResult<> start_ollama_chat(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
