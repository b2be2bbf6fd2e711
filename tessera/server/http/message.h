// HTTP requests and answers as handlers see them. The connection has checked the head before a handler runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

struct HttpField {
  std::string name;
  std::string value;
};

/// The sender of a request.
struct Client {
  std::string name{};           // of its API key; without keys its address. Clients with equal names share their rights
  int best_priority = 0;        // the most urgent priority that it may ask for, -10 to 10
  bool has_key = false;         // it sent a valid API key
  bool is_on_loopback = false;  // it is on this machine
};

struct HttpRequest {
  std::string method{};
  std::string path{};                        // percent-decoded, without --api-prefix and query
  std::string route{};                       // the path of the route, as the router has it
  std::vector<HttpField> query{};            // percent-decoded, in order
  std::vector<HttpField> fields{};           // names in lower case, in order
  std::vector<std::string> path_segments{};  // the segments that matched {} in the path of the route
  std::string body{};                        // decoded from chunks
  std::string id{};                          // X-Request-Id: that of the client, or a new one
  Client client{};

  /// The value of the first field of a name in lower case.
  std::optional<std::string_view> field(std::string_view name) const;
  /// The value of the first parameter of the query with this name.
  std::optional<std::string_view> query_value(std::string_view name) const;
};

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kEventStreamType = "text/event-stream";

/// A whole answer, or the head of a stream. The connection adds Content-Length or Transfer-Encoding, Server, the ids
/// and the fields of CORS.
struct HttpAnswer {
  int status = 200;
  std::string body{};
  std::string content_type{kJsonType};
  std::vector<HttpField> fields{};  // further ones
};

/// A refusal before or instead of a handler's answer.
struct HttpProblem {
  int status = 400;
  std::string_view type{};  // invalid_request_error, authentication_error, ...
  std::string message{};
  std::string path{};  // as far as it is known; decides the dialect of the body
  std::string request_id{};
};

}  // namespace tessera::server
