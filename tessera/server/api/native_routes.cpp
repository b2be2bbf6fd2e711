#include "tessera/server/api/native_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/infill.h"
#include "tessera/server/api/lora_routes.h"
#include "tessera/server/api/native_completion.h"
#include "tessera/server/api/native_embedding.h"
#include "tessera/server/api/rerank.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/api/slot_routes.h"
#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/generation_settings.h"
#include "tessera/server/json/prompt.h"
#include "tessera/text/detokenize.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

constexpr std::string_view kTextType = "text/plain; version=0.0.4; charset=utf-8";

// --- health

void answer_health(ApiContext& context, Exchange& exchange) {
  constexpr double kStalledMs = 30'000;
  std::string_view problem;
  if (!context.models().is_ready()) problem = kLoadingModel;
  if (context.models().has_failed()) problem = "the model cannot be used";  // its path is not for everyone
  if (context.is_draining()) problem = "draining";
  if (problem.empty() && context.models().overdue_ms() > kStalledMs) problem = "stalled";
  if (problem.empty()) return exchange.answer({.body = R"({"status":"ok"})"});
  answer_error(exchange, {.status = 503, .type = "unavailable_error", .message = std::string(problem)});
}

// --- tokens

// The tokens of a text, or of a list of texts and ids. An empty one has none.
FieldResult<std::vector<int32_t>> tokenize_content(const Json& content, const text::Tokenizer& tokenizer,
                                                   text::TokenizeOptions options) {
  std::vector<int32_t> tokens;
  if (content.is_array() && content.empty()) return tokens;
  auto prompts = read_prompts(content, "content", {.n_vocab = static_cast<int64_t>(tokenizer.vocab().n_tokens())});
  if (!prompts) return forward_error(prompts);
  for (const PromptParts& prompt : *prompts)
    for (const PromptPart& part : prompt) {
      const auto* ids = std::get_if<std::vector<int32_t>>(&part);
      auto read = ids != nullptr ? Result<std::vector<int32_t>>(*ids)
                                 : tokenizer.tokenize(std::get<std::string>(part), options);
      if (!read) return std::unexpected(field_error_of(read.error(), "content"));
      tokens.insert(tokens.end(), read->begin(), read->end());
      options.add_special = false;
    }
  return tokens;
}

FieldResult<> answer_tokenize(ServedModel& model, Exchange& exchange) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  auto add_special = reader->boolean("add_special"), parse_special = reader->boolean("parse_special"),
       with_pieces = reader->boolean("with_pieces");
  for (auto* flag : {&add_special, &parse_special, &with_pieces})
    if (!*flag) return forward_error(*flag);
  std::vector<int32_t> tokens;
  if (const Json* content = reader->find("content"); content != nullptr) {
    auto read =
        tokenize_content(*content, model.tokenizer(),
                         {.add_special = add_special->value_or(false), .parse_special = parse_special->value_or(true)});
    if (!read) return forward_error(read);
    tokens = std::move(*read);
  }
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("tokens").begin_array();
  for (const int32_t token : tokens) {
    if (!with_pieces->value_or(false)) {
      writer.value(token);
      continue;
    }
    const std::string piece = token_bytes(model.tokenizer(), token);
    writer.begin_object().member("id", token).key("piece");
    if (text::is_valid_utf8(piece)) {
      writer.value(piece);
    } else {
      writer.begin_array();
      for (const char byte : piece) writer.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
      writer.end_array();
    }
    writer.end_object();
  }
  writer.end_array().end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_detokenize(ServedModel& model, Exchange& exchange) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  auto list = reader->list("tokens");
  if (!list) return forward_error(list);
  std::vector<int32_t> tokens;
  if (*list != nullptr)
    for (size_t i = 0; i < (*list)->size(); ++i) {
      auto id = read_integer((**list)[i], reader->path_of("tokens").at(i), 0, model.facts().n_vocab - 1);
      if (!id) return forward_error(id);
      tokens.push_back(static_cast<int32_t>(*id));
    }
  auto text = text::detokenize(model.tokenizer(), tokens, {.render_special = true});
  if (!text) return std::unexpected(field_error_of(text.error(), "tokens"));
  std::string answer;
  JsonWriter(answer).begin_object().member("content", *text).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

// --- properties

void write_capabilities(JsonWriter& writer, const text::ChatCapabilities& capabilities) {
  writer.begin_object();
  writer.member("supports_system_role", capabilities.system).member("supports_tools", capabilities.tools);
  writer.member("supports_tool_calls", capabilities.calls).member("supports_tool_results", capabilities.results);
  writer.member("supports_parallel_tool_calls", capabilities.parallel);
  writer.member("supports_string_content", capabilities.string_content);
  writer.member("supports_typed_content", capabilities.typed_content);
  writer.member("supports_preserve_reasoning", capabilities.reasoning_history);
  writer.member("supports_object_arguments", capabilities.arguments == text::ArgumentForm::object);
  writer.member("supports_thinking_switch", capabilities.thinking_switch);
  writer.end_object();
}

// The answer of a server with several models to a request that names none.
void answer_router_props(ApiContext& context, Exchange& exchange) {
  const ApiOptions& options = context.options();
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("role", "router").member("max_instances", context.models().options().max_loaded);
  writer.member("models_autoload", context.models().options().loads_on_demand);
  writer.member("model_alias", "tessera").member("model_path", "none");
  writer.key("default_generation_settings").begin_object().key("params");
  write_generation_settings(writer, options.defaults, {}, SettingsPlace::slot);
  writer.member("n_ctx", 0).end_object();
  writer.member("endpoint_slots", options.has_slots).member("endpoint_props", options.has_props);
  writer.member("endpoint_metrics", options.has_metrics).member("ui", options.has_page);
  writer.key("ui_settings").begin_object().end_object();
  writer.member("build_info", options.build_info).member("cors_proxy_enabled", false).end_object();
  exchange.answer({.body = std::move(answer)});
}

FieldResult<> answer_props(ApiContext& context, ServedModel& model, Exchange& exchange) {
  const ModelFacts& facts = model.facts();
  const ApiOptions& options = context.options();
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("default_generation_settings").begin_object().key("params");
  write_generation_settings(writer, context.defaults_of(model), {}, SettingsPlace::slot);
  writer.member("n_ctx", model.slot_context()).end_object();
  writer.member("total_slots", model.options().scheduler.n_slots);
  writer.member("model_alias", facts.id).member("model_ftype", facts.format).member("model_path", facts.path);
  writer.key("modalities").begin_object();
  writer.member("vision", false).member("video", false).member("audio", false).end_object();
  writer.member("media_marker", "<__media__>");
  writer.member("endpoint_slots", options.has_slots).member("endpoint_props", options.has_props);
  writer.member("endpoint_metrics", options.has_metrics).member("ui", options.has_page);
  writer.key("ui_settings").begin_object().end_object();
  writer.member("chat_template", model.template_source()).key("chat_template_caps");
  if (const auto chat_template = model.chat_template()) {
    write_capabilities(writer, (*chat_template)->capabilities());
  } else {
    writer.begin_object().end_object();
  }
  writer.member("bos_token", facts.bos).member("eos_token", facts.eos);
  writer.member("build_info", options.build_info).member("is_sleeping", false);
  writer.member("cors_proxy_enabled", false).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

// lm-eval asks for it.
FieldResult<> answer_tokenizer_info(ServedModel& model, Exchange& exchange) {
  const text::Vocab& vocab = model.vocab();
  const auto pad = vocab.has_text() ? vocab.special(text::SpecialToken::padding) : std::nullopt;
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("bos_token", model.facts().bos).member("eos_token", model.facts().eos).key("pad_token");
  pad ? writer.value(vocab.text(*pad)) : writer.value(nullptr);
  writer.member("chat_template", model.template_source()).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

// Routes of llama-server that would run commands or reach other hosts.
void answer_disabled(Exchange& exchange) {
  answer_error(exchange, {.status = 403, .type = "feature_disabled", .message = "this feature is disabled"});
}

// --- metrics

// Of the loaded models, or of the one that the query names.
FieldResult<> answer_metrics(ApiContext& context, Exchange& exchange) {
  if (!context.options().has_metrics) return std::unexpected(not_supported_error("metrics endpoint", "--metrics"));
  std::vector<ModelRegistry::Lease> models;
  if (const auto name = exchange.request().query_value("model"); name && !context.models().options().is_single) {
    auto lease = context.models().find_loaded(*name);
    if (!lease) return forward_error(lease);
    models.push_back(std::move(*lease));
  } else {
    for (ModelView& view : context.models().views())
      if (view.lease) models.push_back(std::move(view.lease));
  }
  std::vector<NamedMetrics> named;
  for (const auto& model : models) named.push_back({.name = model->facts().id, .metrics = &model->metrics()});
  std::string answer = metrics_text(named);
  if (const Storage* storage = context.storage(); storage != nullptr && storage->cache() != nullptr)
    write_disk_metrics(answer, storage->cache()->counters());
  context.request_counts().write(answer);
  exchange.answer({.body = std::move(answer),
                   .content_type = std::string(kTextType),
                   .fields = {{"Process-Start-Time-Unix", std::to_string(context.start_time_s())}}});
  return {};
}

Handler props_handler(ApiContext& context) {
  return [&context, of_model = on_worker(context, [&context](ServedModel& model, const auto& exchange) {
                      return answer_props(context, model, *exchange);
                    })](const std::shared_ptr<Exchange>& exchange) {
    const bool has_name = exchange->request().query_value("model").has_value();
    if (!context.models().is_ready() || context.models().options().is_single || has_name) return of_model(exchange);
    answer_router_props(context, *exchange);
  };
}

}  // namespace

void add_native_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add_quick(
      "GET", {"/health", "/v1/health"},
      [&context](const std::shared_ptr<Exchange>& exchange) { answer_health(context, *exchange); }, Access::open);
  routes.add_task({"/completion", "/completions"}, TaskKind::generation,
                  [&context](ServedModel& model, const auto& exchange) {
                    return start_native_completion(context, model, exchange);
                  });
  routes.add_task({"/embedding", "/embeddings"}, TaskKind::embedding,
                  [&context](ServedModel& model, const auto& exchange) {
                    return start_native_embedding(context, model, exchange);
                  });
  routes.add_task(
      {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"}, TaskKind::embedding,
      [&context](ServedModel& model, const auto& exchange) { return start_rerank(context, model, exchange); });
  routes.add_task({"/infill"}, TaskKind::generation, [&context](ServedModel& model, const auto& exchange) {
    return start_infill(context, model, exchange);
  });
  routes.add("POST", {"/tokenize", "/v1/tokenize"},
             [](ServedModel& model, const auto& exchange) { return answer_tokenize(model, *exchange); });
  routes.add("POST", {"/detokenize", "/v1/detokenize"},
             [](ServedModel& model, const auto& exchange) { return answer_detokenize(model, *exchange); });
  routes.add("GET", {"/tokenizer_info"},
             [](ServedModel& model, const auto& exchange) { return answer_tokenizer_info(model, *exchange); });
  for (const char* method : {"GET", "POST"})
    routes.add_quick(method, {"/tools", "/cors-proxy"},
                     [](const std::shared_ptr<Exchange>& exchange) { answer_disabled(*exchange); });
  routes.add_quick("GET", {"/props"}, props_handler(context));
  routes.add("POST", {"/props"}, [&context](ServedModel&, const auto& exchange) -> FieldResult<> {
    if (!context.options().has_props)
      return std::unexpected(not_supported_error("changing global properties", "--props"));
    exchange->answer({.body = R"({"success":true})"});
    return {};
  });
  routes.add_free("GET", {"/metrics"}, [&context](const auto& exchange) { return answer_metrics(context, *exchange); });
  add_slot_routes(router, context);
  add_lora_routes(router, context);
}

}  // namespace tessera::server
