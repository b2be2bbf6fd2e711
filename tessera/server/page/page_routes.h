// The routes of the chat page: its files, with what browsers need to keep and to check them.
#pragma once

#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds a route for each file of the page, without keys.
void add_page_routes(Router& router);

}  // namespace tessera::server
