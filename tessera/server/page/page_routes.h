// The routes of the chat page: its files, with what browsers need to keep and to check them.
#pragma once

#include "tessera/server/http/router.h"

namespace tessera::server {

/// Adds a route for each file of the page, without keys, but none for "/".
void add_page_routes(Router& router);

/// Answers with the index of the page.
void answer_page_index(const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
