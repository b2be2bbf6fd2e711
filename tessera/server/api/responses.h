// POST /v1/responses of the OpenAI API: from its items to a chat call, and the answer in items.
#pragma once

#include <memory>
#include <string>

#include "tessera/server/api/chat_call.h"
#include "tessera/server/api/context.h"
#include "tessera/server/api/response_store.h"

namespace tessera::server {

/// Fields of the request that the answer repeats, as JSON.
struct ResponseEcho {
  std::string instructions = "null", previous_response_id = "null", reasoning = R"({"effort":null,"summary":null})",
              text = R"({"format":{"type":"text"}})", tool_choice = R"("auto")", tools = "[]",
              truncation = R"("disabled")", user = "null", metadata = "{}";
};

struct ReadResponseCall {
  ReadChatCall chat{};
  ResponseEcho echo{};
  std::string history{};  // JSON: the list of messages without instructions
  bool stores = true;
  bool drops_oldest = false;  // as many messages as the context has no room for
};

/// Reads items and appends them to `messages`, a list in the form of the chat API. Errors: 400 with the path.
FieldResult<> read_response_input(const Json& input, Json& messages);

/// Reads the body. Errors: 400 with the path of the field; 404 for a previous response that is not stored.
FieldResult<ReadResponseCall> read_response_call(ApiContext& context, ServedModel& model, ResponseStore& store,
                                                 const Json& body, const Client& client);

/// plan_chat(), with the oldest messages left out if the call says so and they do not fit.
FieldResult<ChatPlan> plan_response(ServedModel& model, ReadResponseCall& read);

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_response(ApiContext& context, ServedModel& model, const std::shared_ptr<ResponseStore>& store,
                             const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
