// The Ollama routes that write, with --models-write: copies, new names, removal, and files by their SHA-256. They write
// in the directory of models only.
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

/// ApiOptions::named_models is not empty.
void add_ollama_name_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
