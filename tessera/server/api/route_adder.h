// The way of a request from an I/O thread to a worker, with its model and its place in the queue.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "tessera/server/api/context.h"
#include "tessera/server/http/router.h"

namespace tessera::server {

/// Parts of handlers that run on a worker. They answer the exchange, or return an error, which is then the answer.
using ModelPart = std::function<FieldResult<>(ServedModel& model, const std::shared_ptr<Exchange>& exchange)>;
using FreePart = std::function<FieldResult<>(const std::shared_ptr<Exchange>& exchange)>;

enum class TaskKind : uint8_t { generation, embedding };

/// A handler that runs `part` on a worker, with the model that the request names: in its query, else in its body. The
/// model of a POST is loaded if it is not. The exchange keeps it loaded. While the server starts or ends, the answer is
/// 503.
Handler on_worker(ApiContext& context, ModelPart part);

/// Adds the routes of one context to its router. A route has one or more paths with the same answers.
class RouteAdder {
 public:
  using Paths = std::initializer_list<std::string_view>;

  RouteAdder(Router& router, ApiContext& context) : router_(router), context_(context) {}

  /// A route that needs a model: on_worker().
  void add(std::string_view method, Paths paths, ModelPart part);
  /// A route that needs no model, or all. While the server starts or ends, the answer is 503.
  void add_free(std::string_view method, Paths paths, FreePart part);
  /// A route whose handler runs on the I/O thread, in every state of the server.
  void add_quick(std::string_view method, Paths paths, const Handler& handler, Access access = Access::key);
  /// A route for POST whose part submits a task of this kind. The request takes its place in the queue before it is
  /// read, so that a full queue refuses at once.
  void add_task(Paths paths, TaskKind kind, ModelPart part);
  /// The same for a chat. The stream of a request with X-Conversation-Id goes on without its client.
  void add_chat(Paths paths, ModelPart part);

 private:
  Router& router_;
  ApiContext& context_;
};

}  // namespace tessera::server
