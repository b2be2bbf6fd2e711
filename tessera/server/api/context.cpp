#include "tessera/server/api/context.h"

#include "tessera/server/http/exchange.h"
#include "tessera/server/json/error_body.h"

namespace tessera::server {

void answer_error(Exchange& exchange, const FieldError& error) {
  exchange.answer(error_answer(error, exchange.request().path, exchange.request().id));
}

}  // namespace tessera::server
