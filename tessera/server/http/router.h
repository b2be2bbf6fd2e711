// Routes: from a method and a path to a handler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/http/body_sink.h"
#include "tessera/server/http/exchange.h"

namespace tessera::server {

/// Answers a request, at once or later. Runs on an I/O thread, so it neither waits nor works in proportion to the body:
/// it passes such work to a worker. Must not throw.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

enum class Access : uint8_t {
  key,   // with a valid API key, if the server has keys
  open,  // for everybody
};

struct Route {
  std::string method;  // "GET" answers HEAD as well
  std::string path;    // "/slots/{}": {} matches one segment that is not empty
  Access access = Access::key;
  Handler handler;
  OpenBody open_body{};  // for bodies of any size, which HttpLimits::body_bytes does not limit
};

class Router {
 public:
  void add(Route route);

  struct Match {
    const Route* route = nullptr;              // null: none for this method and path
    std::vector<std::string> path_segments{};  // see HttpRequest
    std::string allow{};                       // the methods of the path, for 405 and OPTIONS; empty: an unknown path
  };
  Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace tessera::server
