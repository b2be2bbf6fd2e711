// The routes of the Ollama API, with one model: generation is that model's, whatever name a client gives.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds the routes. The context must outlive the router.
void add_ollama_routes(Router& router, ApiContext& context);

/// Answers requests of Ollama's own programs with "Ollama is running", others with `otherwise`. For GET /.
Handler with_ollama_greeting(Handler otherwise);

}  // namespace tessera::server
