#include "tessera/server/server.h"

#include <utility>

#include "tessera/server/api/anthropic_routes.h"
#include "tessera/server/api/native_routes.h"
#include "tessera/server/api/ollama_routes.h"
#include "tessera/server/api/openai_routes.h"
#include "tessera/server/api/responses_routes.h"
#include "tessera/server/json/error_body.h"
#include "tessera/server/page/page_routes.h"

namespace tessera::server {

namespace {

// The page, or a greeting for programs of Ollama.
Handler root_handler(const ApiContext& context) {
  return with_ollama_greeting([has_page = context.options().has_page](std::shared_ptr<Exchange> exchange) {
    if (has_page) return answer_page_index(exchange);
    answer_error(*exchange, {.status = 404, .type = "not_found_error", .message = "File Not Found"});
  });
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  TESSERA_ASSIGN(auto workers, Workers::create(options.n_workers));
  std::unique_ptr<Server> server(new Server(std::move(workers)));
  server->context_ = std::make_unique<ApiContext>(std::move(options.api), *server->workers_, server->streams_);
  ApiContext& context = *server->context_;
  Router router;
  add_native_routes(router, context);
  add_openai_routes(router, context);
  add_anthropic_routes(router, context);
  add_responses_routes(router, context);
  add_ollama_routes(router, context);
  if (context.options().has_page) add_page_routes(router);
  router.add({.method = "GET", .path = "/", .access = Access::open, .handler = root_handler(context)});
  options.http.write_problem = [](const HttpProblem& problem) { return error_answer(problem); };
  options.http.on_finished = [&context](const HttpRequest& request, int status) {
    context.request_counts().count(request.route, status);
  };
  TESSERA_ASSIGN(server->http_, HttpServer::start(std::move(options.http), std::move(router)));
  return server;
}

// Workers submit to the scheduler, the scheduler posts to the I/O threads, and all of them use the model.
Server::~Server() {
  if (!http_) return;
  drain();
  end_requests();
  workers_.reset();
  if (model_) model_->scheduler().stop();
  http_.reset();
}

Result<> Server::serve(LoadedModel loaded, ServedModelOptions options) {
  TESSERA_ASSIGN(model_, ServedModel::create(std::move(loaded), std::move(options), turns_,
                                             [http = http_.get()](size_t io_thread, std::function<void()> task) {
                                               http->post(io_thread, std::move(task));
                                             }));
  context_->set_model(model_.get());
  return {};
}

void Server::drain() {
  context_->set_draining();
  if (http_) http_->drain();
  if (model_) model_->scheduler().drain();
}

bool Server::is_idle() const { return http_->is_idle() && (!model_ || model_->scheduler().is_idle()); }

void Server::end_requests() {
  if (model_) model_->scheduler().stop_all();
}

}  // namespace tessera::server
