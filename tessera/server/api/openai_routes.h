// The routes of the OpenAI API: chat completions and completions.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds the routes. The context must outlive the router.
void add_openai_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
