#include "tessera/server/http/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace tessera::server {
namespace {

struct StatusRow {
  int status;
  std::string_view phrase;
  std::string_view type;
};

constexpr std::string_view kInvalidRequest = "invalid_request_error";

constexpr StatusRow kStatusRows[] = {
    {200, "OK", ""},
    {201, "Created", ""},
    {204, "No Content", ""},
    {304, "Not Modified", ""},
    {400, "Bad Request", kInvalidRequest},
    {401, "Unauthorized", "authentication_error"},
    {403, "Forbidden", "permission_error"},
    {404, "Not Found", "not_found_error"},
    {405, "Method Not Allowed", kInvalidRequest},
    {408, "Request Timeout", kInvalidRequest},
    {413, "Content Too Large", kInvalidRequest},
    {414, "URI Too Long", kInvalidRequest},
    {415, "Unsupported Media Type", kInvalidRequest},
    {417, "Expectation Failed", kInvalidRequest},
    {429, "Too Many Requests", "rate_limit_error"},
    {431, "Request Header Fields Too Large", kInvalidRequest},
    {500, "Internal Server Error", "server_error"},
    {501, "Not Implemented", "not_supported_error"},
    {503, "Service Unavailable", "unavailable_error"},
    {529, "Overloaded", "overloaded_error"},
};

const StatusRow* find_status(int status) {
  const auto row = std::ranges::find(kStatusRows, status, &StatusRow::status);
  return row == std::end(kStatusRows) ? nullptr : row;
}

// A JSON string. Bytes outside of ASCII become "?": they may not be UTF-8.
std::string quote_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < ' ' || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += byte < 0x80 ? c : '?';
    }
  }
  return out + '"';
}

}  // namespace

std::string_view status_phrase(int status) {
  const StatusRow* row = find_status(status);
  return row != nullptr ? row->phrase : "Unknown";
}

std::string_view problem_type(int status) {
  if (const StatusRow* row = find_status(status); row != nullptr && !row->type.empty()) return row->type;
  return status < 500 ? kInvalidRequest : "server_error";
}

HttpAnswer plain_problem_answer(const HttpProblem& problem) {
  return {.status = problem.status,
          .body = fmt::format(R"({{"error":{{"code":{},"message":{},"type":{}}}}})", problem.status,
                              quote_json(problem.message), quote_json(problem.type))};
}

}  // namespace tessera::server
