// POST /v1/messages of the Anthropic API: from its fields and blocks to a chat call, and the answer in blocks.
#pragma once

#include <string_view>

#include "tessera/server/api/chat_call.h"
#include "tessera/server/api/context.h"

namespace tessera::server {

/// Ids of calls have this prefix on the client's side only: some templates check the form of ids.
inline constexpr std::string_view kToolUsePrefix = "toolu_";

/// Reads `system` and `messages` into call.messages and call.continues_last. Neighbours of one role become one message.
/// Results of tools become messages of the role tool, before the text beside them. Errors: 400 with the path.
FieldResult<> read_anthropic_messages(const FieldReader& body, ChatCall& call);

/// Replaces the digits after `cch=` in a text that begins with `x-anthropic-billing-header:`. They change with every
/// request, so that no two requests would share a prefix.
std::string settle_billing_header(std::string text);

/// Reads the body of a message. Errors: 400 with the path of the field.
FieldResult<ReadChatCall> read_anthropic_call(ApiContext& context, ServedModel& model, const Json& body,
                                              const Client& client);

/// Reads the request and starts the generation. Runs on a worker.
FieldResult<> start_anthropic_message(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

}  // namespace tessera::server
