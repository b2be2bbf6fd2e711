// The refusal of a request, as the code that reads requests returns it. error_body.h writes it in each dialect.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "tessera/base/result.h"

namespace tessera::server {

/// Numbers of an exceed_context_size_error.
struct ContextOverflow {
  int64_t n_prompt_tokens = 0;
  int64_t n_ctx = 0;
};

struct FieldError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message{};
  std::string param{};  // path of the field at fault: "messages[3].content"; empty if there is none
  std::optional<ContextOverflow> overflow{};
  int retry_after_s = 0;  // > 0: the answer gets a Retry-After
};

/// The reason of a 503 while no model can answer yet.
inline constexpr std::string_view kLoadingModel = "Loading model";

/// A 503: the same request may succeed in a second.
inline FieldError unavailable(std::string_view reason) {
  return {.status = 503, .type = "unavailable_error", .message = std::string(reason), .retry_after_s = 1};
}

template <class T = void>
using FieldResult = std::expected<T, FieldError>;

/// Passes on the error of a failed FieldResult.
template <class T>
std::unexpected<FieldError> forward_error(FieldResult<T>& result) {
  return std::unexpected<FieldError>(std::move(result).error());
}

/// The refusal for an error of the library that the field `param` has caused, or no field if param is empty.
/// Statuses: 501 for unsupported, 503 for out_of_memory, 500 for internal and io, otherwise 400.
FieldError field_error_of(const Error& error, std::string param);

/// The refusal of a prompt that does not fit into the context.
FieldError context_overflow_error(int64_t n_prompt_tokens, int64_t n_ctx);

/// TESSERA_READ(expr): returns from the enclosing function with the FieldError of expr, if any.
#define TESSERA_READ(expr)                                                                      \
  do {                                                                                          \
    if (auto tessera_result = (expr); !tessera_result) [[unlikely]]                             \
      return std::unexpected<::tessera::server::FieldError>(std::move(tessera_result).error()); \
  } while (false)

}  // namespace tessera::server
