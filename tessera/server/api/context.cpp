#include "tessera/server/api/context.h"

#include <new>
#include <utility>

#include "tessera/server/json/error_body.h"

namespace tessera::server {

void answer_error(Exchange& exchange, const FieldError& error) {
  exchange.answer(error_answer(error, exchange.request().path, exchange.request().id));
}

Handler on_worker(ApiContext& context, WorkerPart part) {
  return [&context, part = std::move(part)](std::shared_ptr<Exchange> exchange) {
    ServedModel* model = context.model();
    if (model == nullptr || context.is_draining()) {
      answer_error(*exchange, {.status = 503,
                               .type = "unavailable_error",
                               .message = model == nullptr ? "Loading model" : "The server is shutting down",
                               .retry_after_s = 1});
      return;
    }
    context.workers().post([model, part, exchange = std::move(exchange)] {
      try {
        if (auto done = part(*model, exchange); !done) answer_error(*exchange, done.error());
      } catch (const std::bad_alloc&) {
        answer_error(
            *exchange,
            {.status = 503, .type = "unavailable_error", .message = "The server is out of memory", .retry_after_s = 1});
      }
    });
  };
}

}  // namespace tessera::server
