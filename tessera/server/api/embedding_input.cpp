#include "tessera/server/api/embedding_input.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/embedding_task.h"
#include "tessera/server/json/prompt.h"

namespace tessera::server {

FieldResult<std::vector<std::vector<int32_t>>> read_embedding_texts(const ServedModel& model, const Json& value,
                                                                    std::string_view field) {
  auto prompts = read_prompts(value, field, {.max_prompts = kMaxEmbeddedTexts, .n_vocab = model.facts().n_vocab});
  if (!prompts) return forward_error(prompts);
  std::vector<std::vector<int32_t>> texts;
  for (size_t i = 0; i < prompts->size(); ++i) {
    const std::string path = prompts->size() == 1 ? std::string(field) : fmt::format("{}[{}]", field, i);
    auto tokens = tokenize_prompt((*prompts)[i], model.tokenizer(), path, SpecialText::plain);
    if (!tokens) return forward_error(tokens);
    TESSERA_READ(require_fit(model, std::ssize(*tokens)));
    texts.push_back(std::move(*tokens));
  }
  return texts;
}

FieldResult<VectorForm> read_vector_form(const ApiContext& context, const FieldReader& reader) {
  constexpr std::string_view kFormats[] = {"float", "base64"};
  const auto format = reader.choice("encoding_format", kFormats);
  if (!format) return std::unexpected(format.error());
  const auto norm = reader.integer("embd_normalize", -1, kMaxNorm);
  if (!norm) return std::unexpected(norm.error());
  return VectorForm{.norm = static_cast<int32_t>(norm->value_or(context.options().embd_normalize)),
                    .is_base64 = format->value_or(0) == 1};
}

std::span<const float> shape_vector(std::vector<float>& vector, const VectorForm& form) {
  const std::span<float> part =
      form.dimensions ? std::span(vector).first(static_cast<size_t>(*form.dimensions)) : std::span(vector);
  normalize(part, form.norm);
  return part;
}

void write_vector(JsonWriter& writer, std::span<const float> vector, const VectorForm& form) {
  if (form.is_base64) {
    static_assert(std::endian::native == std::endian::little);
    std::string text;
    append_base64(text, std::as_bytes(vector));
    writer.value(text);
    return;
  }
  writer.begin_array();
  for (const float value : vector) writer.value(value);
  writer.end_array();
}

void append_base64(std::string& out, std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(bytes.size() - i, 3);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? static_cast<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
}

}  // namespace tessera::server
