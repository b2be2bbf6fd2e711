// HTTP requests and answers as handlers see them. The connection has checked the head before a handler runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

class BodySink;

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
  std::string key_id{};         // of its key: the same after a restart, and not the key
};

/// Counts and times of the texts that answered a request, for the access log. Times: below 0 for none.
struct GenerationNote {
  std::string model{};
  int64_t n_prompt = 0;     // prompt tokens
  int64_t n_cached = 0;     // of these, the ones that were not computed
  int64_t n_generated = 0;  // over all choices
  double queue_ms = -1, first_token_ms = -1, gap_p99_ms = -1;
  std::string_view reason{};  // why the last text ended; empty: no text was generated
};

struct HttpRequest {
  std::string method{};
  std::string path{};                        // percent-decoded, without --api-prefix and query
  std::string route{};                       // the path of the route, as the router has it
  std::vector<HttpField> query{};            // percent-decoded, in order
  std::vector<HttpField> fields{};           // names in lower case, in order
  std::vector<std::string> path_segments{};  // the segments that matched {} in the path of the route
  std::string body{};                        // decoded from chunks
  std::shared_ptr<BodySink> sink{};          // has the body instead, on a route with open_body
  std::string id{};                          // X-Request-Id: that of the client, or a new one
  Client client{};
  std::chrono::steady_clock::time_point received{};  // its head
  GenerationNote note{};                             // of the answer; on the strand

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
