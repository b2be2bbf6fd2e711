// POST /v1/chat/completions of the OpenAI API.
#pragma once

#include "tessera/server/api/chat_call.h"
#include "tessera/server/api/context.h"

namespace tessera::server {

/// Reads the body of a chat completion. Errors: 400 with the path of the field.
FieldResult<ReadChatCall> read_openai_chat(ApiContext& context, ServedModel& model, const Json& body,
                                           const Client& client);

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_openai_chat(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
