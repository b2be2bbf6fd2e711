// Refusals made from errors of the library.
#include "tessera/server/json/field_error.h"

#include <fmt/format.h>

namespace tessera::server {
namespace {

struct ErrorStatus {
  ErrorCode code;
  int status;
  const char* type;
};
constexpr ErrorStatus kStatuses[] = {
    {ErrorCode::unsupported, 501, "not_supported_error"},
    {ErrorCode::out_of_memory, 503, "unavailable_error"},
    {ErrorCode::internal, 500, "server_error"},
    {ErrorCode::io, 500, "server_error"},
};

}  // namespace

FieldError field_error_of(const Error& error, std::string param) {
  FieldError refusal;
  refusal.message = param.empty() ? error.message() : fmt::format("Field '{}': {}", param, error.message());
  refusal.param = std::move(param);
  for (const ErrorStatus& row : kStatuses) {
    if (row.code != error.code()) continue;
    refusal.status = row.status;
    refusal.type = row.type;
  }
  return refusal;
}

FieldError context_overflow_error(int64_t n_prompt_tokens, int64_t n_ctx) {
  FieldError refusal;
  refusal.type = "exceed_context_size_error";
  refusal.message = fmt::format("request ({} tokens) exceeds the available context size ({} tokens), try increasing it",
                                n_prompt_tokens, n_ctx);
  refusal.overflow = ContextOverflow{n_prompt_tokens, n_ctx};
  return refusal;
}

}  // namespace tessera::server
