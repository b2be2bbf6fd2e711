// Errors as clients of each protocol expect them: whole answers, and events that end a stream. The path decides the
// protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/server/http/message.h"
#include "tessera/server/json/field_error.h"

namespace tessera::server {

enum class Dialect : uint8_t {
  native,     // also OpenAI's: their errors are the same
  anthropic,  // /v1/messages and below
  ollama,     // /api/...
};

Dialect dialect_of_path(std::string_view path);

/// The status that a client of a dialect gets: Anthropic's for an overloaded server is 529, Ollama's for a full queue
/// is 503.
int dialect_status(int status, Dialect dialect);

/// The body of an error. request_id is a part of Anthropic's.
std::string error_body(const FieldError& error, Dialect dialect, std::string_view request_id);

HttpAnswer error_answer(const FieldError& error, std::string_view path, std::string_view request_id);
HttpAnswer error_answer(const HttpProblem& problem);

/// The last event of a stream that fails, with its line breaks.
std::string error_event(const FieldError& error, Dialect dialect, std::string_view request_id);

}  // namespace tessera::server
