// The routes of the Ollama API that change the directory of models (--models-write): copy, create, delete, and blobs,
// which are files named by their SHA-256.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// ApiOptions::named_models is not empty.
void add_ollama_name_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
