#include "tessera/server/api/ollama_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/weight_facts.h"
#include "tessera/server/api/infill.h"
#include "tessera/server/api/ollama_fields.h"
#include "tessera/server/api/ollama_format.h"
#include "tessera/server/sha256.h"

namespace tessera::server {

namespace {

using SystemTime = std::chrono::system_clock::time_point;

// Clients compute with the time and show it: it is as far away as that of Ollama.
SystemTime far_future() { return SystemTime(std::chrono::hours(24 * 365 * 290)); }

// The time of the file. The bundled model has none: that of its loading.
SystemTime modified_at(const std::string& path, const ServedModel* loaded) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return SystemTime(std::chrono::seconds(loaded != nullptr ? loaded->facts().created_s : 0));
  return std::chrono::time_point_cast<SystemTime::duration>(std::chrono::file_clock::to_sys(time));
}

uint64_t size_of(const ModelFiles& files) {
  uint64_t n_bytes = 0;
  for (const auto& [format, share] : shares_of_formats(files)) n_bytes += share.n_bytes;
  std::error_code error;
  const auto n_file_bytes = std::filesystem::file_size(files.name(), error);
  return !error && files.files().size() == 1 ? n_file_bytes : n_bytes;
}

// 3200000000: "3.2B".
std::string short_number(uint64_t n) {
  const auto value = static_cast<double>(n);
  const auto shown = [](double number, int n_digits, std::string_view unit) {
    return fmt::format("{:.{}f}{}", number, number == std::floor(number) ? 0 : n_digits, unit);
  };
  if (value >= 1e9) return shown(value / 1e9, 1, "B");
  if (value >= 1e6) return shown(value / 1e6, 2, "M");
  if (value >= 1e3) return shown(std::round(value / 1e3), 0, "K");
  return fmt::format("{}", n);
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

void write_details(JsonWriter& writer, const OllamaFacts& facts) {
  writer.key("details").begin_object().member("parent_model", "").member("format", "gguf");
  writer.member("family", facts.family).key("families").begin_array().value(facts.family).end_array();
  writer.member("parameter_size", short_number(facts.n_parameters));
  writer.member("quantization_level", upper_case(facts.format)).end_object();
}

void write_facts(JsonWriter& writer, const OllamaFacts& facts) {
  writer.member("size", facts.n_bytes).member("digest", facts.digest);
  write_details(writer, facts);
}

// --- show

void write_scalar(JsonWriter& writer, const GgufValue& value) {
  if (const auto text = value.as<std::string_view>()) {
    writer.value(*text);
  } else if (const auto flag = value.as<bool>()) {
    writer.value(*flag);
  } else if (const auto number = value.as<int64_t>()) {
    writer.value(*number);
  } else if (const auto large = value.as<uint64_t>()) {
    writer.value(*large);
  } else if (value.type() == GgufType::f32) {
    writer.value(value.as<float>().value_or(0));
  } else {
    writer.value(value.as<double>().value_or(0));
  }
}

void write_metadata(JsonWriter& writer, const ServedModel& model, bool is_verbose) {
  constexpr size_t kMostElements = 64;
  constexpr std::string_view kNParameters = "general.parameter_count";
  const Metadata& metadata = model.engine().files().metadata();
  writer.key("model_info").begin_object();
  for (const auto& [key, value] : metadata.entries()) {
    writer.key(key);
    if (!value.is_array()) {
      write_scalar(writer, value);
      continue;
    }
    if (value.element_type() == GgufType::array || (value.size() > kMostElements && !is_verbose)) {
      writer.value(nullptr);
      continue;
    }
    writer.begin_array();
    for (size_t i = 0; i < value.size(); ++i) write_scalar(writer, value[i]);
    writer.end_array();
  }
  if (metadata.find(kNParameters) == nullptr) writer.member(kNParameters, model.facts().n_parameters);
  writer.end_object();
}

void write_abilities(JsonWriter& writer, const ServedModel& model) {
  writer.key("capabilities").begin_array();
  if (model.embedder() != nullptr && model.embedder()->use().pooling) writer.value("embedding");
  if (!model.generates()) {
    writer.end_array();
    return;
  }
  writer.value("completion");
  const auto chat_template = model.chat_template();
  if (chat_template && (*chat_template)->capabilities().tools) writer.value("tools");
  if (can_think(model)) writer.value("thinking");
  if (can_infill(model)) writer.value("insert");
  writer.end_array();
}

OllamaFacts facts_of_files(const ModelFiles& files) {
  Sha256 sha;
  for (const auto& [key, value] : files.metadata().entries())
    sha.add_text(key).add(static_cast<uint64_t>(value.type())).add(uint64_t{value.bytes().size()}).add(value.bytes());
  sha.add(size_of(files));
  const GgufValue* family = files.metadata().find(keys::kArchitecture);
  return {.family = std::string(family != nullptr ? family->as<std::string_view>().value_or("") : ""),
          .format = std::string(main_format(files)),
          .n_parameters = count_parameters(files),
          .n_bytes = size_of(files),
          .digest = hex_text(sha.finish())};
}

}  // namespace

Result<OllamaFacts> OllamaFiles::facts_of(const ModelView& view) {
  if (view.lease) return facts_of(*view.lease);
  const std::lock_guard lock(mutex_);
  if (const auto known = by_path_.find(view.entry.path); known != by_path_.end()) return known->second;
  TESSERA_ASSIGN(const auto files, ModelFiles::open(view.entry.path));
  return by_path_[view.entry.path] = facts_of_files(*files);
}

OllamaFacts OllamaFiles::facts_of(const ServedModel& model) {
  const std::lock_guard lock(mutex_);
  auto [facts, is_new] = by_path_.try_emplace(model.facts().path);
  if (is_new) facts->second = facts_of_files(model.engine().files());
  return facts->second;
}

void note_ollama_use(ApiContext& context, const ServedModel& model,
                     std::optional<std::chrono::milliseconds> keep_alive) {
  constexpr std::chrono::minutes kDefault{5};
  const RegistryOptions& options = context.models().options();
  const bool has_default = !options.is_single && options.keep_alive < std::chrono::milliseconds(0);
  if (!keep_alive && has_default) keep_alive = kDefault;
  context.models().keep_alive(model, keep_alive.value_or(options.keep_alive));
}

void write_ollama_entry(JsonWriter& writer, const std::string& name, const ModelView& view, OllamaFiles& files) {
  writer.member("name", name).member("model", name);
  const auto facts = files.facts_of(view);
  if (!facts) return;
  writer.member("modified_at", rfc3339(modified_at(view.entry.path, view.lease.get())));
  write_facts(writer, *facts);
}

// A file that cannot be read is left out.
FieldResult<> answer_ollama_tags(ApiContext& context, OllamaFiles& files, Exchange& exchange) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("models").begin_array();
  for (const ModelView& view : context.models().views()) {
    if (!files.facts_of(view)) continue;
    write_ollama_entry(writer.begin_object(), ollama_name(view.entry.name), view, files);
    writer.end_object();
  }
  writer.end_array().end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_ollama_ps(ApiContext& context, OllamaFiles& files, Exchange& exchange) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("models").begin_array();
  for (const ModelView& view : context.models().views()) {
    if (!view.lease) continue;
    const std::string name = ollama_name(view.entry.name);
    writer.begin_object().member("name", name).member("model", name);
    write_facts(writer, files.facts_of(*view.lease));
    writer.member("expires_at", rfc3339(view.expires.value_or(far_future()))).member("size_vram", 0);
    writer.member("context_length", view.lease->slot_context()).end_object();
  }
  writer.end_array().end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<std::string_view> required_ollama_name(const FieldReader& reader) {
  return reader.find("model") == nullptr && reader.find("name") != nullptr ? reader.required_text("name")
                                                                           : reader.required_text("model");
}

FieldResult<> answer_ollama_show(OllamaFiles& files, ServedModel& model, Exchange& exchange) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  const auto name = required_ollama_name(*reader);
  if (!name) return std::unexpected(name.error());
  const auto verbose = reader->boolean("verbose");
  if (!verbose) return std::unexpected(verbose.error());
  if (!is_ollama_name(model, *name)) return std::unexpected(model_not_found(*name));
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("modelfile", fmt::format("FROM {}\n", model.facts().path));
  writer.member("parameters", fmt::format("num_ctx {}", model.slot_context()));
  writer.member("template", model.template_source());
  write_details(writer, files.facts_of(model));
  write_metadata(writer, model, verbose->value_or(false));
  write_abilities(writer, model);
  writer.member("modified_at", rfc3339(modified_at(model.facts().path, &model))).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_ollama_pull(ApiContext& context, OllamaFiles& files, Exchange& exchange) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  const auto name = required_ollama_name(*reader);
  if (!name) return std::unexpected(name.error());
  const auto streams = reader->boolean("stream");
  if (!streams) return std::unexpected(streams.error());
  const std::vector<ModelView> views = context.models().views();
  const auto view = std::ranges::find_if(views, [&](const ModelView& one) { return is_name_of(one.entry, *name); });
  if (view == views.end())
    return std::unexpected(
        FieldError{.status = 501,
                   .type = "not_supported_error",
                   .message = fmt::format("model '{}' is not here, and this server fetches no models", *name)});
  constexpr std::string_view kSuccess = R"({"status":"success"})";
  if (!streams->value_or(true)) {
    exchange.answer({.body = std::string(kSuccess)});
    return {};
  }
  std::string lines;
  const auto facts = files.facts_of(*view);
  if (!facts) return std::unexpected(field_error_of(facts.error(), "model"));
  const auto add_line = [&](std::string_view status) {
    JsonWriter(lines).begin_object().member("status", status).end_object();
    lines += '\n';
  };
  add_line("pulling manifest");
  JsonWriter writer(lines);
  writer.begin_object().member("status", fmt::format("pulling {}", facts->digest.substr(0, 12)));
  writer.member("digest", fmt::format("sha256:{}", facts->digest)).member("total", facts->n_bytes);
  writer.member("completed", facts->n_bytes).end_object();
  lines += '\n';
  add_line("success");
  exchange.answer({.body = std::move(lines), .content_type = std::string(kLinesOfJsonType)});
  return {};
}

}  // namespace tessera::server
