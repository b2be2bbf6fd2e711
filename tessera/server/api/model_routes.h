// The routes about models: their list in the forms of llama-server, OpenAI and Anthropic, loading and unloading.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/api/model_events.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

void add_model_routes(Router& router, ApiContext& context, ModelEvents& events);

}  // namespace tessera::server
