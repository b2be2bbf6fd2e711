// The routes of llama-server beside the completion: health, tokens, properties, slots, metrics, models.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds the routes. The context must outlive the router.
void add_native_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
