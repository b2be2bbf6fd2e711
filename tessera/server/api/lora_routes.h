// GET and POST /lora-adapters: the LoRA adapters of a model and the scales of requests that name none.
#pragma once

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

void add_lora_routes(Router& router, ApiContext& context);

}  // namespace tessera::server
