#include "tessera/server/api/route_adder.h"

#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/kept_exchange.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/top_level.h"

namespace tessera::server {

namespace {

// Runs a part on the present thread, a worker. Nothing is thrown.
template <class Part>
void run_part(const Part& part, const std::shared_ptr<Exchange>& exchange) {
  try {
    try {
      if (auto done = part(exchange); !done) answer_error(*exchange, done.error());
    } catch (const std::bad_alloc&) {
      answer_error(*exchange, unavailable(kOutOfMemory));
    }
  } catch (const std::bad_alloc&) {  // no memory for the error either
    exchange->abort();
  }
}

// Answers 503 while the server starts, ends or has no memory. Returns whether it did.
bool refuses_now(ApiContext& context, Exchange& exchange) {
  const bool is_ready = context.models().is_ready();
  const auto is_short_of_memory = context.options().is_short_of_memory;
  std::string_view reason;
  if (!is_ready) {
    reason = kLoadingModel;
  } else if (context.is_draining()) {
    reason = kShuttingDown;
  } else if (is_short_of_memory != nullptr && is_short_of_memory()) {
    reason = kOutOfMemory;
  } else {
    return false;
  }
  answer_error(exchange, unavailable(reason));
  return true;
}

// The name of the model that a request wants, "" for none.
FieldResult<std::string> wanted_model(ApiContext& context, const HttpRequest& request) {
  if (context.models().options().is_single) return std::string();
  if (const auto name = request.query_value("model")) return std::string(*name);
  if (request.body.empty()) return std::string();
  auto name = find_top_level_text(request.body, "model");
  const bool is_ollama = request.path.starts_with("/api/");
  if (!name && is_ollama) name = find_top_level_text(request.body, "name");
  if (name) return std::move(*name);
  // A body that is no JSON is refused as such.
  TESSERA_READ(read_json_field(request.body));
  return std::string();
}

FieldResult<> run_with_model(ApiContext& context, const ModelPart& part, const std::shared_ptr<Exchange>& exchange) {
  // A request with a place has the lease of its model. If that model is to be unloaded now, a second lease would never
  // come: the model waits for the end of the first one.
  if (exchange->held() != nullptr) return part(*static_cast<ServedModel*>(exchange->held().get()), exchange);
  const HttpRequest& request = exchange->request();
  auto name = wanted_model(context, request);
  if (!name) return forward_error(name);
  if (request.method != "POST") {
    auto lease = context.models().find_loaded(*name);
    if (!lease) return forward_error(lease);
    exchange->hold(*lease);
    return part(**lease, exchange);
  }
  const auto ready = [&context, part, exchange](FieldResult<ModelRegistry::Lease> lease) {
    if (!lease) return answer_error(*exchange, lease.error());
    exchange->hold(*lease);
    context.workers().post([&model = **lease, part, exchange] {
      run_part([&](const auto& same) { return part(model, same); }, exchange);
    });
  };
  const bool may_load = request.query_value("autoload").value_or("true") != "false";
  auto lease = context.models().acquire(*name, may_load,
                                        {.is_gone = [exchange] { return exchange->is_gone(); }, .ready = ready});
  if (!lease) return forward_error(lease);
  if (*lease == nullptr) return {};  // it is being loaded
  exchange->hold(*lease);
  return part(**lease, exchange);
}

// Takes a place in the queue for a request without one. A model without such tasks says so itself, later.
FieldResult<> take_place(TaskKind kind, ServedModel& model, Exchange& exchange) {
  if (exchange.has_place()) return {};
  const std::string& client = exchange.request().client.name;
  std::expected<Mailbox::Place, Refusal> place = nullptr;
  if (kind == TaskKind::generation && model.generates()) place = model.scheduler().reserve(client);
  if (kind == TaskKind::embedding && model.embedder() != nullptr) place = model.embedder()->reserve(client);
  if (!place) return std::unexpected(refusal_error(place.error()));
  exchange.keep_place(std::move(*place));
  return {};
}

ModelPart with_place(TaskKind kind, ModelPart part) {
  return [kind, part = std::move(part)](ServedModel& model, const auto& exchange) -> FieldResult<> {
    TESSERA_READ(take_place(kind, model, *exchange));
    FieldResult<> done = part(model, exchange);
    exchange->take_place();  // of a request without a task
    return done;
  };
}

FreePart with_model(ApiContext& context, ModelPart part) {
  return [&context, part = std::move(part)](const auto& exchange) { return run_with_model(context, part, exchange); };
}

// Runs the part with an exchange that outlives its client, if the request asks for one.
FreePart with_kept_stream(ApiContext& context, FreePart part) {
  return [&context, part = std::move(part)](const auto& exchange) -> FieldResult<> {
    auto kept = keep_stream(context, exchange);
    if (!kept) return forward_error(kept);
    run_part(part, *kept);
    return {};
  };
}

Handler free_on_worker(ApiContext& context, FreePart part) {
  return [&context, part = std::move(part)](std::shared_ptr<Exchange> exchange) {
    if (refuses_now(context, *exchange)) return;
    context.workers().post([part, exchange = std::move(exchange)] { run_part(part, exchange); });
  };
}

// Takes the place in the queue on the I/O thread, where the only model of a server is known. With several models,
// with_place() does, on the worker.
Handler with_early_place(ApiContext& context, TaskKind kind, Handler handler) {
  return [&context, kind, handler = std::move(handler)](std::shared_ptr<Exchange> exchange) {
    if (refuses_now(context, *exchange)) return;
    if (context.models().options().is_single) {
      if (const auto lease = context.models().find_loaded("", LeaseUse::request)) {
        exchange->hold(*lease);
        if (const auto taken = take_place(kind, **lease, *exchange); !taken)
          return answer_error(*exchange, taken.error());
      }
    }
    handler(std::move(exchange));
  };
}

}  // namespace

Handler on_worker(ApiContext& context, ModelPart part) {
  return free_on_worker(context, with_model(context, std::move(part)));
}

void RouteAdder::add_quick(std::string_view method, Paths paths, const Handler& handler, Access access) {
  for (const std::string_view path : paths)
    router_.add({.method = std::string(method), .path = std::string(path), .access = access, .handler = handler});
}

void RouteAdder::add(std::string_view method, Paths paths, ModelPart part) {
  add_quick(method, paths, on_worker(context_, std::move(part)));
}

void RouteAdder::add_free(std::string_view method, Paths paths, FreePart part) {
  add_quick(method, paths, free_on_worker(context_, std::move(part)));
}

void RouteAdder::add_task(Paths paths, TaskKind kind, ModelPart part) {
  part = with_place(kind, std::move(part));
  add_quick("POST", paths, with_early_place(context_, kind, on_worker(context_, std::move(part))));
}

void RouteAdder::add_chat(Paths paths, ModelPart part) {
  constexpr TaskKind kKind = TaskKind::generation;
  FreePart kept = with_kept_stream(context_, with_model(context_, with_place(kKind, std::move(part))));
  add_quick("POST", paths, with_early_place(context_, kKind, free_on_worker(context_, std::move(kept))));
}

}  // namespace tessera::server
