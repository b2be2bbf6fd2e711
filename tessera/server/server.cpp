#include "tessera/server/server.h"

#include <utility>

#include "tessera/server/api/anthropic_routes.h"
#include "tessera/server/api/model_routes.h"
#include "tessera/server/api/native_routes.h"
#include "tessera/server/api/ollama_routes.h"
#include "tessera/server/api/openai_routes.h"
#include "tessera/server/api/responses_routes.h"
#include "tessera/server/api/stream_routes.h"
#include "tessera/server/json/error_body.h"
#include "tessera/server/page/page_routes.h"

namespace tessera::server {

namespace {

// The page, or a greeting for programs of Ollama.
Handler root_handler(const ApiContext& context) {
  return with_ollama_greeting([has_page = context.options().has_page](const std::shared_ptr<Exchange>& exchange) {
    if (has_page) return answer_page_index(exchange);
    answer_error(*exchange, {.status = 404, .type = "not_found_error", .message = "File Not Found"});
  });
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  TESSERA_ASSIGN(auto workers, Workers::create(options.n_workers));
  std::unique_ptr<Server> server(new Server(std::move(workers)));
  if (!options.access_log.empty()) {
    TESSERA_ASSIGN(server->access_log_, AccessLog::open(options.access_log));
    options.api.notes_requests = true;
  }
  const StorageOptions& storage = options.storage;
  if (!storage.slot_directory.empty() || !storage.cache_directory.empty()) {
    TESSERA_ASSIGN(server->storage_, Storage::open(storage));
  }
  server->models_ = std::make_unique<ModelRegistry>(
      [self = server.get()](size_t io_thread, std::function<void()> task) {
        self->http_->post(io_thread, std::move(task));
      },
      server->storage_);
  server->models_->on_change([self = server.get()](const ModelView& view) { self->model_events_.send(view); });
  server->kept_streams_ = std::make_unique<KeptStreams>(options.api.kept_streams);
  server->context_ = std::make_unique<ApiContext>(std::move(options.api), *server->models_, *server->workers_,
                                                  server->streams_, *server->kept_streams_, server->storage_);
  ApiContext& context = *server->context_;
  if (!context.options().named_models.empty()) {
    TESSERA_ASSIGN(server->upload_thread_, DiskThread::create());
    context.set_disk_thread(server->upload_thread_.get());
  }
  Router router;
  add_native_routes(router, context);
  add_model_routes(router, context, server->model_events_);
  add_openai_routes(router, context);
  add_anthropic_routes(router, context);
  add_responses_routes(router, context);
  add_ollama_routes(router, context);
  add_stream_routes(router, context);
  if (context.options().has_page) add_page_routes(router);
  router.add({.method = "GET", .path = "/", .access = Access::open, .handler = root_handler(context)});
  options.http.write_problem = [](const HttpProblem& problem) { return error_answer(problem); };
  options.http.on_finished = [&context, log = server->access_log_.get()](const HttpRequest& request, int status) {
    context.request_counts().count(request.route, status);
    if (log != nullptr) log->add(request, status);
  };
  if (AccessLog* log = server->access_log_.get(); log != nullptr)
    server->kept_streams_->on_late_end([log](const HttpRequest& request) { log->add(request, 200); });
  TESSERA_ASSIGN(server->http_, HttpServer::start(std::move(options.http), std::move(router)));
  return server;
}

// The loader posts to the workers, they submit to the schedulers, and the schedulers post to the I/O threads. An I/O
// thread or the loader may still post to the workers, which then do nothing.
Server::~Server() {
  if (!http_) return;
  drain();
  end_requests();
  workers_->stop();
  models_->stop();
  http_.reset();
  upload_thread_.reset();
  kept_streams_->clear();
}

Result<> Server::reload() {
  TESSERA_TRY(http_->reload());
  if (access_log_) TESSERA_TRY(access_log_->reopen());
  return {};
}

void Server::drain() {
  context_->set_draining();
  model_events_.close();
  if (http_) http_->drain();
  models_->drain();
}

bool Server::is_idle() const { return http_->is_idle() && models_->is_idle(); }

void Server::end_requests() { models_->end_requests(); }

}  // namespace tessera::server
