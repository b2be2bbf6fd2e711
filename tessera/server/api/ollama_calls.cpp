#include "tessera/server/api/ollama_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/infill.h"
#include "tessera/server/api/ollama_fields.h"
#include "tessera/server/api/ollama_reply.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/prompt.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

using TokenIds = std::vector<int32_t>;

/// The fields of POST /api/generate beside the common ones. Texts belong to the body.
struct GenerateFields {
  std::string_view prompt{}, suffix{}, system{};
  TokenIds context{};
  bool is_raw = false;
};

FieldResult<GenerateFields> read_generate_fields(const ServedModel& model, const FieldReader& reader) {
  GenerateFields fields;
  for (const auto& [name, member] : {std::pair("prompt", &GenerateFields::prompt),
                                     {"suffix", &GenerateFields::suffix},
                                     {"system", &GenerateFields::system}}) {
    const auto text = reader.text(name);
    if (!text) return std::unexpected(text.error());
    fields.*member = text->value_or("");
  }
  const auto own_template = reader.text("template");
  if (!own_template) return std::unexpected(own_template.error());
  if (!own_template->value_or("").empty())
    return refuse_field(reader.path_of("template"), "templates of Go are not run. Use \"raw\": true");
  const auto raw = reader.boolean("raw");
  if (!raw) return std::unexpected(raw.error());
  fields.is_raw = raw->value_or(false);
  const auto ids = reader.list("context");
  if (!ids) return std::unexpected(ids.error());
  for (size_t i = 0; *ids != nullptr && i < (*ids)->size(); ++i) {
    const auto id = read_integer((**ids)[i], reader.path_of("context").at(i), 0, model.facts().n_vocab - 1);
    if (!id) return std::unexpected(id.error());
    fields.context.push_back(static_cast<int32_t>(*id));
  }
  return fields;
}

// Puts the context of an earlier answer before a prompt. The beginning of the text is then in the context.
void prepend_context(const ServedModel& model, TokenIds context, TokenIds& prompt) {
  if (context.empty()) return;
  const text::Vocab& vocab = model.vocab();
  const bool begins = vocab.add_bos() && !prompt.empty() && prompt.front() == vocab.special(text::SpecialToken::bos);
  context.insert(context.end(), prompt.begin() + (begins ? 1 : 0), prompt.end());
  prompt = std::move(context);
}

FieldResult<TokenIds> raw_tokens(const ServedModel& model, const GenerateFields& fields, const OllamaFields& common) {
  if (fields.suffix.empty()) return tokenize_prompt({std::string(fields.prompt)}, model.tokenizer(), "prompt");
  if (!can_infill(model))
    return std::unexpected(
        FieldError{.message = fmt::format("\"{}\" does not support insert", common.model), .param = "suffix"});
  return infill_tokens(model,
                       {.prefix = fields.prompt, .suffix = fields.suffix, .n_predict = common.generation.n_predict});
}

FieldResult<> submit_ollama(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                            Generation& generation, OllamaFields& common, GenerationPlan plan, bool is_chat) {
  generation.set_ignored_fields(std::move(common.ignored));
  TaskSpec task = make_task(context, *exchange, plan.fields);
  auto sequences = make_sequences(context, model, std::move(plan));
  if (!sequences) return forward_error(sequences);
  if (is_chat) sequences->front().renders_special = true;  // the parser reads the marks
  task.sequences = std::move(*sequences);
  return generation.start(std::move(task));
}

FieldResult<std::shared_ptr<const text::grammar::Grammar>> grammar_of_format(const OllamaFields& common) {
  if (common.schema.empty()) return nullptr;
  auto compiled = text::grammar::Grammar::from_json_schema(common.schema);
  if (!compiled) return refuse_field({.name = "format"}, compiled.error().text());
  return std::move(*compiled);
}

// A prompt that no template changes, or a text between two others.
FieldResult<> start_text(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                         OllamaFields common, GenerateFields fields, OllamaHead head) {
  auto tokens = raw_tokens(model, fields, common);
  if (!tokens) return forward_error(tokens);
  prepend_context(model, std::move(fields.context), *tokens);
  auto grammar = grammar_of_format(common);
  if (!grammar) return forward_error(grammar);
  draw_seed(common.generation);
  OllamaReplyPlan reply{.head = std::move(head), .prompt = *tokens, .has_context = !fields.is_raw};
  GenerationPlan plan{
      .prompts = {}, .fields = common.generation, .grammar = std::move(*grammar), .n_probs = common.n_probs};
  plan.prompts.push_back(std::move(*tokens));
  TESSERA_READ(bound_ollama_context(plan, common.n_ctx));
  const auto generation = new_ollama_text(context, model, exchange, std::move(common.generation), std::move(reply));
  return submit_ollama(context, model, exchange, *generation, common, std::move(plan), false);
}

FieldResult<> start_reply(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                          OllamaFields& common, ChatCall call, OllamaForm form, TokenIds earlier, OllamaHead head) {
  auto plan = plan_chat(model, std::move(call));
  if (!plan) return forward_error(plan);
  prepend_context(model, std::move(earlier), plan->generation.prompts.front());
  TESSERA_READ(bound_ollama_context(plan->generation, common.n_ctx));
  OllamaReplyPlan reply{.head = std::move(head)};
  if (form == OllamaForm::generate) {
    reply.prompt = plan->generation.prompts.front();
    reply.has_context = true;
  }
  const auto generation = new_ollama_reply(context, model, exchange, *plan, form, std::move(reply));
  return submit_ollama(context, model, exchange, *generation, common, std::move(plan->generation), true);
}

std::string generate_messages(const GenerateFields& fields) {
  std::string messages;
  JsonWriter writer(messages);
  const auto add = [&](std::string_view role, std::string_view content) {
    writer.begin_object().member("role", role).member("content", content).end_object();
  };
  writer.begin_array();
  if (!fields.system.empty()) add("system", fields.system);
  add("user", fields.prompt);
  writer.end_array();
  return messages;
}

// A message of this dialect as one of the OpenAI API.
FieldResult<Json> openai_message(const Json& given, const std::string& path) {
  auto reader = FieldReader::create(given, path);
  if (!reader) return forward_error(reader);
  TESSERA_READ(refuse_images(*reader));
  Json message = given;
  if (reader->find("content") == nullptr) message["content"] = "";
  for (const auto& [from, to] : {std::pair("thinking", "reasoning_content"), {"tool_name", "name"}}) {
    const auto text = reader->text(from);
    if (!text) return std::unexpected(text.error());
    if (!text->value_or("").empty()) message[to] = std::string(**text);
  }
  return message;
}

// The messages that the name of the model puts before those of a request: its system text, unless the request begins
// with one, and its own messages.
Json named_messages(const ServedModel& model, const Json& messages) {
  Json first = Json::array();
  const std::optional<NamedModel>& named = model.options().named;
  if (!named) return first;
  const bool has_system = messages.front().is_object() && messages.front().value("role", Json()) == "system";
  if (!named->system.empty() && !has_system) first.push_back({{"role", "system"}, {"content", named->system}});
  if (named->messages.empty()) return first;
  if (const auto own = read_json_field(named->messages); own && own->is_array())
    first.insert(first.end(), own->begin(), own->end());
  return first;
}

// `converted`: the messages before them.
FieldResult<> read_ollama_messages(const Json& messages, Json converted, ChatCall& call) {
  for (size_t i = 0; i < messages.size(); ++i) {
    auto message = openai_message(messages[i], fmt::format("messages[{}]", i));
    if (!message) return forward_error(message);
    converted.push_back(std::move(*message));
  }
  auto checked = check_messages(converted);
  if (!checked) return forward_error(checked);
  call.messages = std::move(checked->json);
  call.continues_last = checked->ends_with_assistant;
  return {};
}

FieldResult<> require_ability(const ServedModel& model, std::string_view name, std::string_view ability) {
  if (model.generates()) return {};
  return std::unexpected(FieldError{.message = fmt::format("\"{}\" does not support {}", name, ability)});
}

std::string_view load_reason(const OllamaFields& common) {
  return common.keep_alive == std::chrono::milliseconds(0) ? "unload" : "load";
}

}  // namespace

FieldResult<> start_ollama_generate(ApiContext& context, ServedModel& model,
                                    const std::shared_ptr<Exchange>& exchange) {
  const Clock::time_point received = Clock::now();
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  auto common = read_ollama_fields(context, model, *reader, exchange->request().client);
  if (!common) return forward_error(common);
  auto fields = read_generate_fields(model, *reader);
  if (!fields) return forward_error(fields);
  TESSERA_READ(require_ability(model, common->model, "generate"));
  OllamaHead head{.model = common->model, .received = received};
  note_ollama_use(context, model, common->keep_alive);
  if (fields->prompt.empty() && fields->suffix.empty()) {
    answer_ollama_load(*exchange, OllamaForm::generate, head, load_reason(*common), common->generation.stream);
    return {};
  }
  if (fields->is_raw || !fields->suffix.empty())
    return start_text(context, model, exchange, std::move(*common), std::move(*fields), std::move(head));
  if (const auto& named = model.options().named; named && fields->system.empty()) fields->system = named->system;
  ChatCall call = ollama_chat_call(*common);
  call.messages = generate_messages(*fields);
  return start_reply(context, model, exchange, *common, std::move(call), OllamaForm::generate,
                     std::move(fields->context), std::move(head));
}

FieldResult<> start_ollama_chat(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  const Clock::time_point received = Clock::now();
  auto reader = FieldReader::parse(exchange->take_body());
  if (!reader) return forward_error(reader);
  auto common = read_ollama_fields(context, model, *reader, exchange->request().client);
  if (!common) return forward_error(common);
  TESSERA_READ(require_ability(model, common->model, "chat"));
  OllamaHead head{.model = common->model, .received = received};
  const auto messages = reader->list("messages");
  if (!messages) return std::unexpected(messages.error());
  note_ollama_use(context, model, common->keep_alive);
  if (*messages == nullptr || (*messages)->empty()) {
    answer_ollama_load(*exchange, OllamaForm::chat, head, load_reason(*common), common->generation.stream);
    return {};
  }
  ChatCall call = ollama_chat_call(*common);
  TESSERA_READ(read_ollama_messages(**messages, named_messages(model, **messages), call));
  if (const Json* tools = reader->find("tools"); tools != nullptr) {
    auto checked = check_tools(*tools);
    if (!checked) return forward_error(checked);
    call.tools = std::move(*checked);
  }
  if (!call.tools.empty() && !(call.fields.grammar.empty() && call.fields.json_schema.empty()))
    return refuse_field({.parent = "options", .name = "grammar"}, "cannot be combined with tools");
  return start_reply(context, model, exchange, *common, std::move(call), OllamaForm::chat, {}, std::move(head));
}

}  // namespace tessera::server
