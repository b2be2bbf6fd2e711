// POST /rerank: scores of documents for a query, in the forms of Jina (`documents`) and of Hugging Face's TEI
// (`texts`).
#pragma once

#include "tessera/server/api/context.h"

namespace tessera::server {

/// Reads the request and starts the scoring. Runs on a worker. Errors: 501 without scores.
FieldResult<> start_rerank(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
