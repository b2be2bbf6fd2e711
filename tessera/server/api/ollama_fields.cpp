#include "tessera/server/api/ollama_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/ollama_format.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

// Names of a body that these routes read themselves, or accept without effect.
constexpr std::string_view kOllamaBody[] = {"model",    "prompt",       "suffix",   "system",   "template",
                                            "context",  "raw",          "format",   "options",  "think",
                                            "stream",   "keep_alive",   "images",   "messages", "tools",
                                            "logprobs", "top_logprobs", "truncate", "shift"};

// Names of options: those that are read here, and those of a loader that has done its work.
constexpr std::string_view kOllamaOptions[] = {
    "num_predict",      "num_keep",   "num_ctx",    "stream",     "num_batch", "num_gpu",
    "main_gpu",         "use_mmap",   "num_thread", "numa",       "low_vram",  "draft_num_predict",
    "f16_kv",           "vocab_only", "use_mlock",  "logits_all", "tfs_z",     "num_gqa",
    "penalize_newline", "n_cmpl",     "n",          "logprobs",   "n_probs",   "response_fields"};

constexpr int64_t kMostTopLogprobs = 20;

GenerationFields ollama_defaults(const ApiContext& context, const ServedModel& model) {
  GenerationFields defaults = context.defaults_of(model);
  defaults.sampling.top_p = 0.9f;
  defaults.sampling.min_p = 0;
  defaults.n_keep = 4;
  return defaults;
}

// Options of other names than in the table of fields.
FieldResult<> read_own_options(const FieldReader& options, const GenerationFields& defaults, OllamaFields& fields) {
  const auto n_predict = options.integer("num_predict", -2, INT32_MAX);
  if (!n_predict) return std::unexpected(n_predict.error());
  if (*n_predict) {
    const int64_t wanted = **n_predict < 0 ? int64_t{INT32_MAX} : **n_predict;
    const int64_t most = defaults.n_predict < 0 ? int64_t{INT32_MAX} : defaults.n_predict;
    fields.generation.n_predict = static_cast<int32_t>(std::min(wanted, most));
  }
  const auto n_keep = options.integer("num_keep", -1, INT32_MAX);
  if (!n_keep) return std::unexpected(n_keep.error());
  if (*n_keep) fields.generation.n_keep = static_cast<int32_t>(**n_keep);
  const auto n_ctx = options.integer("num_ctx", 1, INT32_MAX);
  if (!n_ctx) return std::unexpected(n_ctx.error());
  if (*n_ctx) fields.n_ctx = std::min(fields.n_ctx, **n_ctx);
  return {};
}

// The options that the name of the model keeps are the defaults of a request's own.
FieldResult<> read_named_options(const ServedModel& model, const GenerationLimits& limits, OllamaFields& fields) {
  const std::optional<NamedModel>& named = model.options().named;
  if (!named || named->options.empty()) return {};
  const auto options = read_json_field(named->options);
  if (!options) return std::unexpected(options.error());
  auto read = read_generation_fields(*options, fields.generation, limits, kOllamaOptions, "parameters");
  if (!read) return forward_error(read);
  const GenerationFields defaults = std::exchange(fields.generation, std::move(read->fields));
  return read_own_options(FieldReader(*options, "parameters"), defaults, fields);
}

FieldResult<> read_options(const ApiContext& context, const ServedModel& model, const FieldReader& reader,
                           const Client& client, OllamaFields& fields) {
  auto options = reader.object("options");
  if (!options) return forward_error(options);
  if (!*options) return {};
  auto read = read_generation_fields(*reader.find("options"), fields.generation,
                                     generation_limits(context, model, client), kOllamaOptions, "options");
  if (!read) return forward_error(read);
  fields.generation = std::move(read->fields);
  constexpr size_t kMostIgnoredBytes = 512;
  if (fields.ignored.size() + read->ignored.size() + 2 <= kMostIgnoredBytes) {
    if (!fields.ignored.empty() && !read->ignored.empty()) fields.ignored += ", ";
    fields.ignored += read->ignored;
  }
  return read_own_options(**options, context.defaults_of(model), fields);
}

FieldResult<> read_format(const FieldReader& reader, OllamaFields& fields) {
  const Json* format = reader.find("format");
  if (format == nullptr) return {};
  if (format->is_string() && format->get_ref<const std::string&>().empty()) return {};
  if (!format->is_object() && *format != "json")
    return wrong_value(reader.path_of("format"), *format, "\"json\", or a JSON schema");
  fields.schema = format->is_object() ? json_text(*format) : R"({"type":"object"})";
  if (!fields.generation.grammar.empty() || !fields.generation.json_schema.empty())
    return refuse_field(reader.path_of("format"), "cannot be combined with a grammar");
  return {};
}

FieldResult<> read_think(const ServedModel& model, const FieldReader& reader, OllamaFields& fields) {
  const Json* think = reader.find("think");
  if (think == nullptr) return {};
  constexpr std::string_view kLevels[] = {"low", "medium", "high", "max"};
  const bool is_level =
      think->is_string() && std::ranges::find(kLevels, think->get_ref<const std::string&>()) != std::end(kLevels);
  if (!think->is_boolean() && !is_level)
    return wrong_value(reader.path_of("think"), *think, "true, false, \"low\", \"medium\", \"high\" or \"max\"");
  fields.thinks = is_level || think->get<bool>();
  if (is_level) fields.effort = think->get<std::string>();
  if (*fields.thinks && !can_think(model))
    return std::unexpected(
        FieldError{.message = fmt::format("\"{}\" does not support thinking", fields.model), .param = "think"});
  return {};
}

FieldResult<> read_probs(const FieldReader& reader, OllamaFields& fields) {
  const auto wants = reader.boolean("logprobs");
  if (!wants) return std::unexpected(wants.error());
  const auto top = reader.integer("top_logprobs", 0, kMostTopLogprobs);
  if (!top) return std::unexpected(top.error());
  if (wants->value_or(false)) fields.n_probs = static_cast<int32_t>(top->value_or(0));
  return {};
}

}  // namespace

FieldResult<> check_ollama_options(const Json& options, std::string_view path) {
  const auto read = read_generation_fields(options, {}, {}, kOllamaOptions, path);
  if (!read) return std::unexpected(read.error());
  OllamaFields fields;
  return read_own_options(FieldReader(options, std::string(path)), {}, fields);
}

FieldResult<> check_ollama_messages(const Json& messages) {
  if (!messages.is_array()) return wrong_value({.name = "messages"}, messages, "a list");
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto reader = FieldReader::create(messages[i], fmt::format("messages[{}]", i));
    if (!reader) return std::unexpected(reader.error());
    constexpr std::string_view kRoles[] = {"system", "user", "assistant"};
    const auto role = reader->choice("role", kRoles);
    if (!role) return std::unexpected(role.error());
    if (!*role) return refuse_field(reader->path_of("role"), "missing");
    if (const auto content = reader->required_text("content"); !content) return std::unexpected(content.error());
  }
  return {};
}

bool can_think(const ServedModel& model) {
  const auto chat_template = model.chat_template();
  if (!chat_template) return false;
  const text::ReplyFamily& family = (*chat_template)->reply_family();
  return !family.reasoning_begin.empty() || family.shape == text::ReplyShape::harmony ||
         (*chat_template)->capabilities().thinking_switch;
}

FieldResult<> refuse_images(const FieldReader& reader) {
  const auto images = reader.list("images");
  if (!images) return std::unexpected(images.error());
  if (*images == nullptr || (*images)->empty()) return {};
  return refuse_field(reader.path_of("images"), "image and audio input is not supported");
}

FieldResult<OllamaFields> read_ollama_fields(ApiContext& context, ServedModel& model, const FieldReader& reader,
                                             const Client& client) {
  OllamaFields fields;
  const auto name = reader.text("model");
  if (!name) return std::unexpected(name.error());
  fields.model = shown_ollama_name(model, name->value_or(""));
  fields.n_ctx = model.slot_context();
  const GenerationLimits limits = generation_limits(context, model, client);
  fields.generation = ollama_defaults(context, model);
  TESSERA_READ(read_named_options(model, limits, fields));
  auto read = read_generation_fields(reader.json(), fields.generation, limits, kOllamaBody);
  if (!read) return forward_error(read);
  fields.generation = std::move(read->fields);
  fields.ignored = std::move(read->ignored);
  TESSERA_READ(read_options(context, model, reader, client, fields));
  const auto streams = reader.boolean("stream");
  if (!streams) return std::unexpected(streams.error());
  fields.generation.stream = streams->value_or(true);
  // An answer of this dialect has one text. Lines of JSON have no room for comments and progress.
  fields.generation.n_choices = 1;
  fields.generation.sse_ping_interval_s = -1;
  fields.generation.return_progress = false;
  TESSERA_READ(read_format(reader, fields));
  TESSERA_READ(read_think(model, reader, fields));
  TESSERA_READ(read_probs(reader, fields));
  TESSERA_READ(refuse_images(reader));
  if (const Json* keep_alive = reader.find("keep_alive"); keep_alive != nullptr) {
    const auto duration = read_ollama_duration(*keep_alive, reader.path_of("keep_alive"));
    if (!duration) return std::unexpected(duration.error());
    fields.keep_alive = *duration;
  }
  return fields;
}

ChatCall ollama_chat_call(const OllamaFields& fields) {
  ChatCall call;
  call.fields = fields.generation;
  call.answer_schema = fields.schema;
  call.answer_schema_field = "format";
  call.enable_thinking = fields.thinks;
  call.reasoning_effort = fields.effort;
  call.n_probs = fields.n_probs;
  return call;
}

FieldResult<> bound_ollama_context(GenerationPlan& plan, int64_t n_ctx) {
  const int64_t n_prompt = std::ssize(plan.prompts.front());
  if (n_prompt >= n_ctx) return std::unexpected(context_overflow_error(n_prompt, n_ctx));
  const int64_t room = n_ctx - n_prompt;
  int32_t& n_predict = plan.fields.n_predict;
  if (n_predict < 0 || n_predict > room) n_predict = static_cast<int32_t>(std::min<int64_t>(room, INT32_MAX));
  return {};
}

}  // namespace tessera::server
