// Lists of a request have a bound in number and in bytes, which stands here.
#include "tessera/server/json/special_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/server/json/writer.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxStops = 64, kMaxStopBytes = 1024;
constexpr size_t kMaxBreakers = 256, kMaxBreakerBytes = 256;  // those of sample::validate
constexpr size_t kMaxBiases = 4096, kMaxBiasTextBytes = 1024;
constexpr size_t kMaxSchemaBytes = size_t{1} << 20;
constexpr size_t kMaxResponseFields = 256, kMaxResponseFieldBytes = 1024;
constexpr size_t kMaxSamplers = 64, kMaxSamplerBytes = 64;
constexpr size_t kMaxLoras = 1024;
constexpr double kMaxFloat = static_cast<double>(std::numeric_limits<float>::max());

std::unexpected<FieldError> too_many(const FieldPath& path, size_t count, size_t limit) {
  return refuse_field(path, fmt::format("a list of {}, want at most {}", count, limit));
}

FieldResult<float> read_bias(const Json& value, const FieldPath& path) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) return wrong_value(path, value, "a number or false");
  const auto bias = read_number(value, path, -kMaxFloat, kMaxFloat);
  if (!bias) return std::unexpected(bias.error());
  return static_cast<float>(*bias);
}

/// A key of the form {"15043": -1}: its id where it is written as an integer.
std::optional<int64_t> id_of_key(std::string_view key) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  if (error != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return id;
}

FieldResult<> read_bias_pair(const Json& pair, const FieldPath& path, const GenerationLimits& limits,
                             std::vector<BiasEntry>& entries) {
  if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_number() || pair[0].is_string()))
    return wrong_value(path, pair, "a pair [id or text, bias or false]");
  BiasEntry entry;
  if (pair[0].is_string()) {
    const auto text = read_text(pair[0], path, kMaxBiasTextBytes);
    if (!text) return std::unexpected(text.error());
    entry.token = std::string(*text);
  } else {
    const auto id = read_integer(pair[0], path, 0, limits.n_vocab - 1);
    if (!id) return std::unexpected(id.error());
    entry.token = static_cast<int32_t>(*id);
  }
  const auto bias = read_bias(pair[1], path);
  if (!bias) return std::unexpected(bias.error());
  entry.bias = *bias;
  entries.push_back(std::move(entry));
  return {};
}

FieldResult<> read_bias_member(const std::string& key, const Json& value, const FieldPath& path,
                               const GenerationLimits& limits, std::vector<BiasEntry>& entries) {
  BiasEntry entry;
  if (const auto id = id_of_key(key)) {
    if (*id < 0 || *id >= limits.n_vocab)
      return refuse_field(path, fmt::format("token {}, want 0 to {}", *id, limits.n_vocab - 1));
    entry.token = static_cast<int32_t>(*id);
  } else {
    if (key.size() > kMaxBiasTextBytes)
      return refuse_field(path, fmt::format("a text of {} bytes, want at most {}", key.size(), kMaxBiasTextBytes));
    entry.token = key;
  }
  const auto bias = read_bias(value, path);
  if (!bias) return std::unexpected(bias.error());
  entry.bias = *bias;
  entries.push_back(std::move(entry));
  return {};
}

}  // namespace

FieldResult<> read_dry_sequence_breakers(const Json& value, const FieldPath& path, const GenerationLimits&,
                                         GenerationFields& fields) {
  auto texts = read_texts(value, path, kMaxBreakers, kMaxBreakerBytes);
  if (!texts) return forward_error(texts);
  for (size_t i = 0; i < texts->size(); ++i) {
    if ((*texts)[i].empty()) return refuse_field(path.at(i), "an empty text, want 1 byte or more");
  }
  fields.sampling.dry_sequence_breakers = *std::move(texts);
  return {};
}

// As in llama-server, empty texts do not count, and without any the server's own apply.
FieldResult<> read_stop(const Json& value, const FieldPath& path, const GenerationLimits&, GenerationFields& fields) {
  std::vector<std::string> stops;
  if (value.is_string()) {
    const auto text = read_text(value, path, kMaxStopBytes);
    if (!text) return std::unexpected(text.error());
    stops.emplace_back(*text);
  } else if (value.is_array()) {
    auto texts = read_texts(value, path, kMaxStops, kMaxStopBytes);
    if (!texts) return forward_error(texts);
    stops = *std::move(texts);
  } else {
    return wrong_value(path, value, "a text, or a list of texts");
  }
  std::erase(stops, "");
  if (!stops.empty()) fields.stop = std::move(stops);
  return {};
}

FieldResult<> read_logit_bias(const Json& value, const FieldPath& path, const GenerationLimits& limits,
                              GenerationFields& fields) {
  if (!value.is_structured())
    return wrong_value(path, value, "a list of [id or text, bias or false], or an object of id: bias");
  if (value.size() > kMaxBiases) return too_many(path, value.size(), kMaxBiases);
  std::vector<BiasEntry> entries;
  entries.reserve(value.size());
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) TESSERA_READ(read_bias_pair(value[i], path.at(i), limits, entries));
  } else {
    for (const auto& [key, bias] : value.get_ref<const Json::object_t&>())
      TESSERA_READ(read_bias_member(key, bias, path, limits, entries));
  }
  fields.logit_bias = std::move(entries);
  return {};
}

FieldResult<> read_samplers(const Json& value, const FieldPath& path, const GenerationLimits&,
                            GenerationFields& fields) {
  std::string names;
  if (value.is_array()) {
    const auto texts = read_texts(value, path, kMaxSamplers, kMaxSamplerBytes);
    if (!texts) return std::unexpected(texts.error());
    for (size_t i = 0; i < texts->size(); ++i) {
      if ((*texts)[i].empty() || (*texts)[i].contains(';'))
        return wrong_value(path.at(i), value[i], "a sampler's name");
    }
    names = fmt::format("{}", fmt::join(*texts, ";"));
  } else if (!value.is_string()) {
    return wrong_value(path, value, "a list of names, or a text of letters");
  }
  auto order = value.is_array() ? sample::parse_sampler_names(names)
                                : sample::parse_sampler_letters(value.get_ref<const std::string&>());
  if (!order) {
    FieldError error = field_error_of(order.error(), path.text());
    error.status = 400;  // also for a sampler that tessera does not have
    error.type = FieldError().type;
    return std::unexpected(std::move(error));
  }
  fields.sampling.order = *std::move(order);
  return {};
}

FieldResult<std::vector<LoraScale>> read_lora_scales(const Json& value, const FieldPath& path,
                                                     const GenerationLimits& limits) {
  if (!value.is_array()) return wrong_value(path, value, "a list of {\"id\", \"scale\"}");
  if (value.size() > kMaxLoras) return too_many(path, value.size(), kMaxLoras);
  if (!value.empty() && limits.n_lora == 0)
    return refuse_field(path, "the server has no LoRA adapters: start it with --lora FILE");
  std::vector<LoraScale> scales;
  for (size_t i = 0; i < value.size(); ++i) {
    const auto reader = FieldReader::create(value[i], path.at(i).text());
    if (!reader) return std::unexpected(reader.error());
    const auto id = reader->integer("id", 0, int64_t{limits.n_lora} - 1);
    if (!id) return std::unexpected(id.error());
    if (!*id) return refuse_field(reader->path_of("id"), "absent, want the id of an adapter");
    const auto scale = reader->number("scale", -kMaxFloat, kMaxFloat);
    if (!scale) return std::unexpected(scale.error());
    const auto number = static_cast<int32_t>(**id);
    if (std::ranges::find(scales, number, &LoraScale::id) != scales.end())
      return refuse_field(reader->path_of("id"), fmt::format("adapter {} a second time", number));
    scales.push_back({number, static_cast<float>(scale->value_or(0))});
  }
  std::ranges::sort(scales, {}, &LoraScale::id);
  return scales;
}

FieldResult<> read_lora(const Json& value, const FieldPath& path, const GenerationLimits& limits,
                        GenerationFields& fields) {
  auto scales = read_lora_scales(value, path, limits);
  if (!scales) return forward_error(scales);
  fields.lora = std::move(*scales);
  return {};
}

FieldResult<> read_json_schema(const Json& value, const FieldPath& path, const GenerationLimits&,
                               GenerationFields& fields) {
  if (!value.is_object()) return wrong_value(path, value, "an object");
  std::string schema = json_text(value);
  if (schema.size() > kMaxSchemaBytes)
    return refuse_field(path, fmt::format("a schema of {} bytes, want at most {}", schema.size(), kMaxSchemaBytes));
  fields.json_schema = std::move(schema);
  return {};
}

FieldResult<> read_stream_options(const Json& value, const FieldPath& path, const GenerationLimits&,
                                  GenerationFields& fields) {
  const auto reader = FieldReader::create(value, path.text());
  if (!reader) return std::unexpected(reader.error());
  const auto include_usage = reader->boolean("include_usage");
  if (!include_usage) return std::unexpected(include_usage.error());
  fields.include_usage = include_usage->value_or(fields.include_usage);
  return {};
}

FieldResult<> read_response_fields(const Json& value, const FieldPath& path, const GenerationLimits&,
                                   GenerationFields& fields) {
  auto paths = read_texts(value, path, kMaxResponseFields, kMaxResponseFieldBytes);
  if (!paths) return forward_error(paths);
  fields.response_fields = *std::move(paths);
  return {};
}

}  // namespace tessera::server
