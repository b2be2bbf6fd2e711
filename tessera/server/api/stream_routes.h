// The routes of streams that outlive their connection: GET and DELETE /v1/stream, POST /v1/streams/lookup.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

void add_stream_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
