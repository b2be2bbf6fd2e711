#include "tessera/server/api/stream_routes.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/kept_exchange.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

constexpr size_t kMaxLookedUp = 1024;

FieldResult<KeptStream::Name> wanted_name(const Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const auto id = request.query_value("conv_id");
  if (!id || id->empty())
    return std::unexpected(FieldError{.message = "Parameter 'conv_id': missing", .param = "conv_id"});
  return KeptStream::Name(request.client.name, *id);
}

FieldResult<uint64_t> wanted_place(const HttpRequest& request) {
  const std::string_view text = request.query_value("from").value_or("0");
  uint64_t place = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), place);
  if (error != std::errc() || end != text.data() + text.size())
    return std::unexpected(FieldError{.message = "Parameter 'from': want a number of bytes", .param = "from"});
  return place;
}

FieldResult<> follow_stream(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const auto name = wanted_name(*exchange);
  if (!name) return std::unexpected(name.error());
  const auto place = wanted_place(exchange->request());
  if (!place) return std::unexpected(place.error());
  const auto stream = context.kept_streams().find(*name);
  if (stream == nullptr)
    return std::unexpected(
        FieldError{.status = 404, .type = "not_found_error", .message = "No stream of this conversation is kept"});
  return stream->follow(exchange, *place);
}

// Unknown names are no error, so a stop may be repeated.
FieldResult<> stop_stream(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const auto name = wanted_name(*exchange);
  if (!name) return std::unexpected(name.error());
  if (const auto stream = context.kept_streams().find(*name)) {
    context.kept_streams().erase(*stream);
    stream->stop();
  }
  exchange->answer({.status = 204});
  return {};
}

void write_facts(JsonWriter& writer, const std::string& id, const KeptStreamFacts& facts) {
  writer.begin_object().member("conversation_id", id).member("is_done", facts.is_done);
  writer.member("total_bytes", facts.end).member("kept_from", facts.begin).member("started_at", facts.started_s);
  if (facts.completed_s) {
    writer.member("completed_at", *facts.completed_s);
  } else {
    writer.member("completed_at", nullptr);
  }
  writer.end_object();
}

FieldResult<> look_up_streams(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return std::unexpected(reader.error());
  const auto ids = reader->texts("conversation_ids", kMaxLookedUp, kMaxConversationBytes);
  if (!ids) return std::unexpected(ids.error());
  if (!*ids) return refuse_field(reader->path_of("conversation_ids"), "missing");
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_array();
  for (const std::string& id : **ids)
    if (const auto stream = context.kept_streams().find({exchange->request().client.name, id}))
      write_facts(writer, id, stream->facts());
  writer.end_array();
  exchange->answer({.body = std::move(answer)});
  return {};
}

}  // namespace

void add_stream_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add_free("GET", {"/v1/stream"}, [&context](const auto& exchange) { return follow_stream(context, exchange); });
  routes.add_free("DELETE", {"/v1/stream"},
                  [&context](const auto& exchange) { return stop_stream(context, exchange); });
  routes.add_free("POST", {"/v1/streams/lookup"},
                  [&context](const auto& exchange) { return look_up_streams(context, exchange); });
}

}  // namespace tessera::server
