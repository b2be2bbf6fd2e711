#include "tessera/base/result.h"

#include <fmt/format.h>

namespace tessera {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::not_found:
      return "not found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::format:
      return "format";
    case ErrorCode::limit:
      return "limit";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::out_of_memory:
      return "out of memory";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error Error::within(std::string_view context) && {
  std::string message;
  message.reserve(context.size() + 2 + message_.size());
  message.append(context).append(": ").append(message_);
  return {code_, std::move(message)};
}

std::unexpected<Error> detail::vfail(ErrorCode code, fmt::string_view format, fmt::format_args args) {
  return std::unexpected<Error>(std::in_place, code, fmt::vformat(format, args));
}

}  // namespace tessera
