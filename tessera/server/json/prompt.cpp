// The one ambiguous form, a flat list, is decided by whether it holds a number: then it is one prompt.
#include "tessera/server/json/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::server {
namespace {

constexpr std::string_view kPromptForms = "a text, ids, texts and ids, {\"prompt_string\"}, or a list of these";

/// Reads the elements of one prompt. Consecutive ids share a part: a part per id would need ten times their memory.
FieldResult<PromptParts> read_parts(const Json& list, const FieldPath& path, const PromptLimits& limits) {
  if (list.empty()) return refuse_field(path, "an empty list, want at least one token");
  // Elements of the list path[i] are named path[i][j], so the path of the list is written out on an error.
  std::string list_path;
  const auto element = [&](size_t i) -> FieldPath {
    if (!path.index) return path.at(i);
    if (list_path.empty()) list_path = path.text();
    return {.name = list_path, .index = i};
  };
  PromptParts parts;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& item = list[i];
    if (item.is_string()) {
      parts.emplace_back(item.get_ref<const std::string&>());
      continue;
    }
    if (!item.is_number()) return wrong_value(element(i), item, "a text or an id");
    const auto id = read_integer(item, element(i), 0, limits.n_vocab - 1);
    if (!id) return std::unexpected(id.error());
    if (parts.empty() || parts.back().index() == 0) parts.emplace_back(std::vector<int32_t>());
    std::get<std::vector<int32_t>>(parts.back()).push_back(static_cast<int32_t>(*id));
  }
  return parts;
}

FieldResult<PromptParts> read_object(const Json& object, const FieldPath& path) {
  const FieldReader reader(object, path.text());
  if (reader.find("multimodal_data") != nullptr)
    return refuse_field(reader.path_of("multimodal_data"), "image and audio input is not supported");
  const auto text = reader.required_text("prompt_string");
  if (!text) return std::unexpected(text.error());
  return PromptParts{std::string(*text)};
}

FieldResult<PromptParts> read_prompt(const Json& value, const FieldPath& path, const PromptLimits& limits) {
  if (value.is_string()) return PromptParts{value.get_ref<const std::string&>()};
  if (value.is_object()) return read_object(value, path);
  if (value.is_array()) return read_parts(value, path, limits);
  return wrong_value(path, value, kPromptForms);
}

void append_ids(const std::vector<int32_t>& ids, std::vector<int32_t>& tokens) {
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

}  // namespace

FieldResult<std::vector<PromptParts>> read_prompts(const Json& value, std::string_view field,
                                                   const PromptLimits& limits) {
  const FieldPath path{.name = field};
  const bool is_list = value.is_array() && !value.empty() &&
                       std::ranges::none_of(value, [](const Json& item) { return item.is_number(); });
  std::vector<PromptParts> prompts;
  if (!is_list) {
    auto prompt = read_prompt(value, path, limits);
    if (!prompt) return forward_error(prompt);
    prompts.push_back(*std::move(prompt));
    return prompts;
  }
  if (value.size() > limits.max_prompts)
    return refuse_field(path, fmt::format("{} prompts, want at most {}", value.size(), limits.max_prompts));
  for (size_t i = 0; i < value.size(); ++i) {
    auto prompt = read_prompt(value[i], path.at(i), limits);
    if (!prompt) return forward_error(prompt);
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

FieldResult<std::vector<int32_t>> tokenize_prompt(const PromptParts& prompt, const text::Tokenizer& tokenizer,
                                                  std::string_view field, SpecialText special) {
  const FieldPath path{.name = field};
  const text::Vocab& vocab = tokenizer.vocab();
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt[i])) {
      const auto wrong = std::ranges::find_if(*ids, [&](int32_t id) { return !vocab.contains(id); });
      if (wrong != ids->end())
        return refuse_field(path, fmt::format("token {}, want 0 to {}", *wrong, vocab.n_tokens() - 1));
      append_ids(*ids, tokens);
      continue;
    }
    if (!vocab.has_text())
      return std::unexpected(
          field_error_of(Error(ErrorCode::unsupported, "the model has no vocabulary, want token ids"), path.text()));
    auto part = tokenizer.tokenize(std::get<std::string>(prompt[i]),
                                   {.add_special = i == 0, .parse_special = special == SpecialText::parsed});
    if (!part) return std::unexpected(field_error_of(part.error(), path.text()));
    // A text between others does not end the prompt.
    const bool has_end = i == 0 && prompt.size() > 1 && vocab.add_eos() && !part->empty() &&
                         part->back() == vocab.special(text::SpecialToken::eos);
    if (has_end) part->pop_back();
    append_ids(*part, tokens);
  }
  if (tokens.empty()) return refuse_field(path, "no tokens, want at least one");
  return tokens;
}

}  // namespace tessera::server
