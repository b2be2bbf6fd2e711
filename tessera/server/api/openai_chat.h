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

/// POST /v1/chat/completions/control: ends the reasoning of a stream of the same client, and answers whether it did.
FieldResult<> control_openai_chat(ApiContext& context, Exchange& exchange);

}  // namespace tessera::server
