// Errors as values. Every failure that a file, prompt, flag, request, device or clock can cause is returned as a
// Result<T>. Code below the command line does not throw, abort, exit or print.
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

enum class ErrorCode {
  invalid_argument,  // a value of the caller is out of its range
  not_found,         // a file, key, tensor or name does not exist
  io,                // the operating system refused a read, write or map
  format,            // bytes that violate their format
  limit,             // a documented bound would be exceeded
  unsupported,       // well-formed, but not implemented
  mismatch,          // two things that must match do not
  out_of_memory,     // an allocation failed or does not fit the budget
  cancelled,         // stopped on request
  internal,          // a bug in tessera
};

/// "format", "out of memory", ...
std::string_view to_string(ErrorCode code);

/// One failure: a code for programs and a line of text for people ("WHAT: where, got, limit").
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same error with "context: " before its message.
  Error within(std::string_view context) &&;

 private:
  ErrorCode code_;
  std::string message_;
};

template <class T = void>
using Result = std::expected<T, Error>;

namespace detail {
std::unexpected<Error> vfail(ErrorCode code, fmt::string_view format, fmt::format_args args);
}

/// Returns a failed Result with a formatted message: return fail(ErrorCode::format, "rank {}, limit 4", rank);
template <class... Args>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return detail::vfail(code, format, fmt::make_format_args(args...));
}

/// Passes on the error of a failed Result.
template <class T>
std::unexpected<Error> forward_error(Result<T>& result) {
  return std::unexpected<Error>(std::move(result).error());
}

/// Passes on the error of a failed Result with "context: " before its message.
template <class T>
std::unexpected<Error> forward_error(Result<T>& result, std::string_view context) {
  return std::unexpected<Error>(std::move(result).error().within(context));
}

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)

/// TESSERA_TRY(expr): returns from the enclosing function with expr's error, if any.
#define TESSERA_TRY(expr)                                                          \
  do {                                                                             \
    if (auto tessera_result = (expr); !tessera_result) [[unlikely]]                \
      return std::unexpected<::tessera::Error>(std::move(tessera_result).error()); \
  } while (false)

/// TESSERA_ASSIGN(auto x, expr): assigns the value of expr to x, or returns with its error.
#define TESSERA_ASSIGN(target, expr) TESSERA_ASSIGN_INNER(TESSERA_CONCAT(tessera_result_, __LINE__), target, expr)
#define TESSERA_ASSIGN_INNER(tmp, target, expr)                       \
  auto tmp = (expr);                                                  \
  if (!tmp) [[unlikely]]                                              \
    return std::unexpected<::tessera::Error>(std::move(tmp).error()); \
  target = std::move(*tmp)

}  // namespace tessera
