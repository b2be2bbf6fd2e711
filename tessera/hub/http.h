// Requests of HTTP, several at once on one thread. curl_client.cpp implements them with libcurl. Redirects are not
// followed here: their rules are in transfer.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::hub {

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case

  /// Returns the first field with this name (in lower case), or "".
  std::string_view field(std::string_view name) const;
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> fields;  // "Name: value"
};

/// The end of a request. An empty reason: the answer came completely.
struct HttpEnd {
  std::string reason;     // "Connection reset by peer"
  bool may_retry = true;  // the reason may pass, unlike a certificate that is not valid
};

/// Receives an answer. Its functions are called by HttpClient::poll(). After a returned false the request is stopped,
/// and nothing more is called.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  virtual bool on_head(const HttpHead& head) = 0;
  virtual bool on_body(std::span<const std::byte> bytes) = 0;
  virtual void on_end(const HttpEnd& end) = 0;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  /// Starts a GET request. The receiver must outlive it. Errors: out_of_memory; internal.
  virtual Result<> start(const HttpRequest& request, HttpReceiver& receiver) = 0;
  /// Ends the request of a receiver, if it has one, without a call.
  virtual void stop(HttpReceiver& receiver) = 0;
  /// Waits until something of a request comes, at most so long, and passes it on. Errors: internal.
  virtual Result<> poll(std::chrono::milliseconds wait) = 0;
};

struct HttpOptions {
  std::string user_agent;
  std::string ca_file, ca_dir;  // "": the library's
  int stall_seconds = 30;       // below 1 KB/s for so long, a request ends
};

/// Opens libcurl, which is not linked: packages of tessera run without it until a download is wanted.
/// Errors: unsupported (no libcurl, with the name of the package).
Result<std::unique_ptr<HttpClient>> create_http_client(const HttpOptions& options);

}  // namespace tessera::hub
