// The server: HTTP, workers and models. `tessera serve` starts it, loads the model while it already answers GET
// /health, and drains it at the end.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/server/access_log.h"
#include "tessera/server/api/context.h"
#include "tessera/server/api/live_streams.h"
#include "tessera/server/api/model_events.h"
#include "tessera/server/http/http_server.h"
#include "tessera/server/models/model_registry.h"
#include "tessera/server/workers.h"

namespace tessera::server {

struct ServerOptions {
  HttpOptions http{};
  ApiOptions api{};
  std::string access_log{};  // a path, or "-" for standard output; empty: no log
  StorageOptions storage{};
  int n_workers = 1;
};

class Server {
 public:
  /// Opens the sockets. All requests but those of health get 503 until a model is there. Errors: those of
  /// HttpServer::start(), Workers::create(), AccessLog::open() and Storage::open().
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  /// Ends all requests.
  ~Server();

  /// Serves one model. `loaded` has a session. Errors: those of ModelRegistry::serve().
  Result<> serve(LoadedModel loaded, ServedModelOptions options) {
    return models_->serve(std::move(loaded), std::move(options));
  }
  /// Serves the models of a source, which must outlive the server. Errors: those of ModelRegistry::open().
  Result<> serve(ModelSource& source, const RegistryOptions& options, const LoadProgress& progress) {
    return models_->open(source, options, progress);
  }

  std::vector<std::string> addresses() const { return http_->addresses(); }
  uint16_t port() const { return http_->port(); }
  /// Reads keys and certificates again, and opens the access log again.
  Result<> reload();
  /// Work that is due about every second: comments in silent streams, slow readers, old streams and unused models.
  void tick() {
    streams_.tick();
    kept_streams_->tick();
    models_->tick();
  }

  /// Takes no more requests, and ends those that wait. Running ones go on.
  void drain();
  /// Whether no request is in progress.
  bool is_idle() const;
  /// Ends running requests with an error.
  void end_requests();

 private:
  explicit Server(std::unique_ptr<Workers> workers) : workers_(std::move(workers)) {}

  std::unique_ptr<KeptStreams> kept_streams_;  // destroyed last
  LiveStreams streams_;
  ModelEvents model_events_{streams_};
  std::shared_ptr<Storage> storage_;  // null: the server keeps no files
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<DiskThread> upload_thread_;  // null: clients send no files
  std::unique_ptr<AccessLog> access_log_;      // null: there is none
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tessera::server
