// The routes of the Anthropic API: messages and the count of their tokens.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds the routes. The context must outlive the router.
void add_anthropic_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
