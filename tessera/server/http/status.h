// Statuses of HTTP: their phrases, the types of their errors, and the body of a refusal where no dialect provides one.
#pragma once

#include <string_view>

#include "tessera/server/http/message.h"

namespace tessera::server {

/// "Not Found" for 404; "Unknown" for a status without a phrase.
std::string_view status_phrase(int status);

/// The type of an error of OpenAI and llama-server: "invalid_request_error" for 400. docs/serving.md has the table.
std::string_view problem_type(int status);

/// {"error":{"code":...,"message":"...","type":"..."}}
HttpAnswer plain_problem_answer(const HttpProblem& problem);

/// Whether an answer of this status may have a body.
constexpr bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

}  // namespace tessera::server
