// POST /api/embed and POST /api/embeddings of the Ollama API.
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

// These read the request. They run on workers.
FieldResult<> start_ollama_embed(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);
FieldResult<> start_ollama_embeddings(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
