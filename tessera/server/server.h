// The server: HTTP, workers and one model. `tessera serve` starts it, loads the model while it already answers
// GET /health, and drains it at the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/server/api/context.h"
#include "tessera/server/api/live_streams.h"
#include "tessera/server/http/http_server.h"
#include "tessera/server/models/served_model.h"
#include "tessera/server/workers.h"

namespace tessera::server {

struct ServerOptions {
  HttpOptions http{};
  ApiOptions api{};
  int n_workers = 1;
};

class Server {
 public:
  /// Opens the sockets. All requests but those of health get 503 until a model is there. Errors: those of
  /// HttpServer::start() and Workers::create().
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  /// Ends all requests.
  ~Server();

  /// Serves a model. `loaded` has a session. Errors: those of ServedModel::create().
  Result<> serve(LoadedModel loaded, ServedModelOptions options);

  std::vector<std::string> addresses() const { return http_->addresses(); }
  uint16_t port() const { return http_->port(); }
  /// Reads keys and certificates again.
  Result<> reload() { return http_->reload(); }
  /// Work that is due about every second: comments in silent streams.
  void tick() { streams_.tick(); }

  /// Takes no more requests, and ends those that wait. Running ones go on.
  void drain();
  /// Whether no request is in progress.
  bool is_idle() const;
  /// Ends running requests with an error.
  void end_requests();

 private:
  explicit Server(std::unique_ptr<Workers> workers) : workers_(std::move(workers)) {}

  ComputeTurns turns_;
  LiveStreams streams_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tessera::server
