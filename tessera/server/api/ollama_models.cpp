#include "tessera/server/api/ollama_models.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/split.h"
#include "tessera/server/api/infill.h"
#include "tessera/server/api/ollama_fields.h"
#include "tessera/server/api/ollama_format.h"
#include "tessera/server/json/reader.h"

namespace tessera::server {

namespace {

using SystemTime = std::chrono::system_clock::time_point;

// Clients compute with the time and show it: it is as far away as that of Ollama.
SystemTime far_future() { return SystemTime(std::chrono::hours(24 * 365 * 290)); }

SystemTime modified_at(const ServedModel& model) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(model.facts().path, error);
  if (error) return SystemTime(std::chrono::seconds(model.facts().created_s));
  return std::chrono::time_point_cast<SystemTime::duration>(std::chrono::file_clock::to_sys(time));
}

uint64_t size_of(const ServedModel& model) {
  std::error_code error;
  const auto n_bytes = std::filesystem::file_size(model.facts().path, error);
  const bool is_whole = !error && model.engine().files().files().size() == 1;
  return is_whole ? n_bytes : model.facts().n_bytes;
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

void write_details(JsonWriter& writer, const ServedModel& model) {
  const std::string& family = model.engine().model().info().architecture;
  writer.key("details").begin_object().member("parent_model", "").member("format", "gguf").member("family", family);
  writer.key("families").begin_array().value(family).end_array();
  writer.member("parameter_size", short_number(model.facts().n_parameters));
  writer.member("quantization_level", upper_case(model.facts().format)).end_object();
}

void write_entry(JsonWriter& writer, OllamaState& state, const ServedModel& model) {
  const std::string name = ollama_name(model);
  writer.member("name", name).member("model", name).member("size", size_of(model));
  writer.member("digest", state.digest(model));
  write_details(writer, model);
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
  writer.key("capabilities").begin_array().value("completion");
  const auto chat_template = model.chat_template();
  if (chat_template && (*chat_template)->capabilities().tools) writer.value("tools");
  if (can_think(model)) writer.value("thinking");
  if (can_infill(model)) writer.value("insert");
  writer.end_array();
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (context_) EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void add(std::span<const std::byte> bytes) {
    const uint64_t n_bytes = bytes.size();
    add_raw(&n_bytes, sizeof n_bytes);
    add_raw(bytes.data(), bytes.size());
  }
  void add(uint64_t number) { add_raw(&number, sizeof number); }
  std::string finish() {
    std::array<unsigned char, 32> digest{};
    if (context_) EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    std::string text;
    for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  void add_raw(const void* bytes, size_t n_bytes) {
    if (context_) EVP_DigestUpdate(context_.get(), bytes, n_bytes);
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

void OllamaState::note_use(std::optional<std::chrono::milliseconds> keep_alive) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const bool is_endless = !keep_alive || *keep_alive < milliseconds(0);
  expires_ms_.store(is_endless ? -1 : (now + *keep_alive).count(), std::memory_order_relaxed);
}

SystemTime OllamaState::expires_at() const {
  const int64_t ms = expires_ms_.load(std::memory_order_relaxed);
  return ms < 0 ? far_future() : SystemTime(std::chrono::milliseconds(ms));
}

std::string OllamaState::digest(const ServedModel& model) {
  const std::lock_guard lock(mutex_);
  if (!digest_.empty()) return digest_;
  Sha256 sha;
  for (const auto& [key, value] : model.engine().files().metadata().entries()) {
    sha.add(std::as_bytes(std::span(key)));
    sha.add(static_cast<uint64_t>(value.type()));
    sha.add(value.bytes());
  }
  sha.add(size_of(model));
  digest_ = sha.finish();
  return digest_;
}

FieldResult<> answer_ollama_tags(OllamaState& state, ServedModel& model, Exchange& exchange) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("models").begin_array().begin_object();
  write_entry(writer, state, model);
  writer.member("modified_at", rfc3339(modified_at(model))).end_object().end_array().end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_ollama_ps(OllamaState& state, ServedModel& model, Exchange& exchange) {
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().key("models").begin_array().begin_object();
  write_entry(writer, state, model);
  writer.member("expires_at", rfc3339(state.expires_at())).member("size_vram", 0);
  writer.member("context_length", model.slot_context()).end_object().end_array().end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<std::string_view> required_ollama_name(const FieldReader& reader) {
  return reader.find("model") == nullptr && reader.find("name") != nullptr ? reader.required_text("name")
                                                                           : reader.required_text("model");
}

FieldError ollama_model_not_found(std::string_view name) {
  return {.status = 404, .type = "not_found_error", .message = fmt::format("model '{}' not found", name)};
}

FieldResult<> answer_ollama_show(ServedModel& model, Exchange& exchange) {
  auto body = read_json(exchange.take_body());
  if (!body) return forward_error(body);
  auto reader = FieldReader::create(*body);
  if (!reader) return forward_error(reader);
  const auto name = required_ollama_name(*reader);
  if (!name) return std::unexpected(name.error());
  const auto verbose = reader->boolean("verbose");
  if (!verbose) return std::unexpected(verbose.error());
  if (!is_ollama_name(model, *name)) return std::unexpected(ollama_model_not_found(*name));
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("modelfile", fmt::format("FROM {}\n", model.facts().path));
  writer.member("parameters", fmt::format("num_ctx {}", model.slot_context()));
  writer.member("template", model.template_source());
  write_details(writer, model);
  write_metadata(writer, model, verbose->value_or(false));
  write_abilities(writer, model);
  writer.member("modified_at", rfc3339(modified_at(model))).end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> answer_ollama_pull(OllamaState& state, ServedModel& model, Exchange& exchange) {
  auto body = read_json(exchange.take_body());
  if (!body) return forward_error(body);
  auto reader = FieldReader::create(*body);
  if (!reader) return forward_error(reader);
  const auto name = required_ollama_name(*reader);
  if (!name) return std::unexpected(name.error());
  const auto streams = reader->boolean("stream");
  if (!streams) return std::unexpected(streams.error());
  if (!is_ollama_name(model, *name))
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
  const std::string digest = state.digest(model);
  const auto add_line = [&](std::string_view status) {
    JsonWriter(lines).begin_object().member("status", status).end_object();
    lines += '\n';
  };
  add_line("pulling manifest");
  JsonWriter writer(lines);
  writer.begin_object().member("status", fmt::format("pulling {}", digest.substr(0, 12)));
  writer.member("digest", fmt::format("sha256:{}", digest)).member("total", size_of(model));
  writer.member("completed", size_of(model)).end_object();
  lines += '\n';
  add_line("success");
  exchange.answer({.body = std::move(lines), .content_type = std::string(kLinesOfJsonType)});
  return {};
}

}  // namespace tessera::server
