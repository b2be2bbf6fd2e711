// The routes of slots and of the prefix cache: GET /slots, POST /slots/ID?action=save|restore|erase, and
// POST /cache?action=clear.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds the routes. The context must outlive the router.
void add_slot_routes(Router& router, ApiContext& context);

/// The 501 of a route that a flag switches on: "This server does not support ENDPOINT. Start it with `FLAG`".
FieldError not_supported_error(std::string_view endpoint, std::string_view flag);

}  // namespace tessera::server
