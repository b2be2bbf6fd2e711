#include "tessera/server/api/model_routes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/server/api/ollama_models.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

namespace {

// When a model came to be: when it was loaded, else when its file was written. Seconds since 1970.
int64_t created_s(const ModelView& view) {
  if (view.lease) return view.lease->facts().created_s;
  std::error_code error;
  const auto time = std::filesystem::last_write_time(view.entry.path, error);
  if (error) return 0;
  const auto system_time = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(system_time).count();
}

std::string_view origin_name(ModelOrigin origin) {
  switch (origin) {
    case ModelOrigin::directory:
      return "models_dir";
    case ModelOrigin::preset:
      return "preset";
    case ModelOrigin::flag:
      break;
  }
  return "flag";
}

void write_texts(JsonWriter& writer, std::string_view key, const std::vector<std::string>& texts) {
  writer.key(key).begin_array();
  for (const std::string& text : texts) writer.value(text);
  writer.end_array();
}

void write_meta(JsonWriter& writer, const ServedModel& model) {
  const ModelFacts& facts = model.facts();
  writer.key("meta").begin_object();
  writer.member("vocab_type", facts.vocab_type).member("n_vocab", facts.n_vocab);
  writer.member("n_ctx", model.slot_context()).member("n_ctx_train", facts.n_ctx_train);
  writer.member("n_embd", facts.n_embd).member("n_params", facts.n_parameters).member("size", facts.n_bytes);
  writer.member("ftype", facts.format).end_object();
}

// The state of one of several models.
void write_state(JsonWriter& writer, const ModelView& view) {
  writer.key("status").begin_object().member("value", state_name(view.state));
  std::vector<std::string> args;
  for (const PresetSetting& setting : view.entry.settings) {
    args.push_back((setting.key.size() == 1 ? "-" : "--") + setting.key);
    args.push_back(setting.value);
  }
  write_texts(writer, "args", args);
  if (view.state == ModelState::loading) writer.member("progress", view.progress);
  if (!view.failure.empty()) writer.member("failed", true).member("error", view.failure);
  writer.end_object();
  writer.member("source", origin_name(view.entry.origin)).member("can_remove", false);
  writer.key("architecture").begin_object();
  write_texts(writer, "input_modalities", {"text"});
  write_texts(writer, "output_modalities", {"text"});
  writer.end_object();
}

void write_model(JsonWriter& writer, const ModelView& view, bool is_single) {
  writer.begin_object().member("id", view.entry.name);
  write_texts(writer, "aliases", view.lease ? view.lease->options().aliases : view.entry.aliases);
  write_texts(writer, "tags", view.lease ? view.lease->options().tags : view.entry.tags);
  writer.member("object", "model").member("created", created_s(view)).member("owned_by", "llamacpp");
  if (view.lease) write_meta(writer, *view.lease);
  if (!is_single) write_state(writer, view);
  writer.end_object();
}

void write_anthropic_model(JsonWriter& writer, const ModelView& view) {
  const std::chrono::sys_seconds created(std::chrono::seconds(created_s(view)));
  writer.begin_object().member("type", "model").member("id", view.entry.name).member("display_name", view.entry.name);
  writer.member("created_at", fmt::format("{:%FT%TZ}", created)).end_object();
}

void write_id(JsonWriter& writer, const ModelView* view) {
  view == nullptr ? writer.value(nullptr) : writer.value(view->entry.name);
}

// Clients of the Anthropic API send its version.
bool is_anthropic(const Exchange& exchange) { return exchange.request().field("anthropic-version").has_value(); }

FieldResult<> answer_models(ApiContext& context, OllamaFiles& files, Exchange& exchange) {
  if (exchange.request().query_value("reload").value_or("") == "1")
    if (const auto reloaded = context.models().reload(); !reloaded)
      return std::unexpected(field_error_of(reloaded.error(), ""));
  const std::vector<ModelView> views = context.models().views();
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object();
  if (is_anthropic(exchange)) {
    writer.key("data").begin_array();
    for (const ModelView& view : views) write_anthropic_model(writer, view);
    writer.end_array().member("has_more", false);
    write_id(writer.key("first_id"), views.empty() ? nullptr : &views.front());
    write_id(writer.key("last_id"), views.empty() ? nullptr : &views.back());
  } else {
    writer.key("models").begin_array();
    for (const ModelView& view : views) {
      write_ollama_entry(writer.begin_object(), view.entry.name, view, files);
      writer.end_object();
    }
    writer.end_array().member("object", "list").key("data").begin_array();
    for (const ModelView& view : views) write_model(writer, view, context.models().options().is_single);
    writer.end_array();
  }
  writer.end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_model(ApiContext& context, Exchange& exchange) {
  const std::string& id = exchange.request().path_segments.front();
  const std::vector<ModelView> views = context.models().views();
  const auto view = std::ranges::find_if(views, [&](const ModelView& one) { return is_name_of(one.entry, id); });
  if (view == views.end()) return std::unexpected(model_not_found(id));
  std::string answer;
  JsonWriter writer(answer);
  is_anthropic(exchange) ? write_anthropic_model(writer, *view)
                         : write_model(writer, *view, context.models().options().is_single);
  exchange.answer({.body = std::move(answer)});
  return {};
}

// Loading goes on after the answer: GET /models/sse tells how it ends.
FieldResult<> answer_change(ApiContext& context, Exchange& exchange,
                            FieldResult<> (ModelRegistry::*change)(std::string_view name)) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  const auto name = reader->required_text("model");
  if (!name) return std::unexpected(name.error());
  TESSERA_READ((context.models().*change)(*name));
  exchange.answer({.body = R"({"success":true})"});
  return {};
}

FieldResult<> refuse_download(const std::shared_ptr<Exchange>&) {
  return std::unexpected(FieldError{
      .status = 501, .type = "not_supported_error", .message = "This server fetches no models from other hosts"});
}

FieldResult<> refuse_removal(const std::shared_ptr<Exchange>&) {
  return std::unexpected(
      FieldError{.status = 403, .type = "permission_error", .message = "This server removes no files"});
}

}  // namespace

void add_model_routes(Router& router, ApiContext& context, ModelEvents& events) {
  RouteAdder routes(router, context);
  const auto files = std::make_shared<OllamaFiles>();
  routes.add_free("GET", {"/models", "/v1/models"},
                  [&context, files](const auto& exchange) { return answer_models(context, *files, *exchange); });
  routes.add_free("GET", {"/v1/models/{}"},
                  [&context](const auto& exchange) { return answer_model(context, *exchange); });
  routes.add_free("POST", {"/models/load"},
                  [&context](const auto& exchange) { return answer_change(context, *exchange, &ModelRegistry::load); });
  routes.add_free("POST", {"/models/unload"}, [&context](const auto& exchange) {
    return answer_change(context, *exchange, &ModelRegistry::unload);
  });
  routes.add_free("GET", {"/models/sse"}, [&events](const auto& exchange) -> FieldResult<> {
    events.subscribe(exchange);
    return {};
  });
  routes.add_free("POST", {"/models"}, refuse_download);
  routes.add_free("DELETE", {"/models"}, refuse_removal);
}

}  // namespace tessera::server
