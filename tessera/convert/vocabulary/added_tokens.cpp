#include "tessera/convert/vocabulary/added_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/space_sign.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::array<std::string_view, 4> kSpecialTexts{"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
// DeepSeek's bars are U+FF5C.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSpecialForms{
    {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}, {"<unused", ">"}}};

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_sign = text.substr(at).starts_with(text::kSpaceSign);
    out += is_sign ? ' ' : text[at];
    at += is_sign ? text::kSpaceSign.size() : 1;
  }
  return out;
}

Result<int64_t> parse_id(std::string_view text) {
  int64_t id = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (code != std::errc{} || end != text.data() + text.size())
    return fail(ErrorCode::format, "added_tokens_decoder: id {}, want a number", text::quote_text(text));
  return id;
}

Result<std::vector<AddedToken>> read_added_tokens_file(const TokenizerFolder& folder) {
  std::vector<AddedToken> tokens;
  TESSERA_ASSIGN(const JsonTree json, folder.read_json_file("added_tokens.json"));
  if (!json) return tokens;
  if (!json->is_object()) return fail(ErrorCode::format, "{}: no object", folder.path_of("added_tokens.json"));
  for (const auto& [text, id] : json->items()) {
    if (!id.is_number_integer())
      return fail(ErrorCode::format, "{}: token {} has no integer as its id", folder.path_of("added_tokens.json"),
                  text::quote_text(text));
    tokens.push_back({id.get<int64_t>(), text, false});
  }
  return tokens;
}

}  // namespace

bool looks_special(std::string_view text) {
  if (std::ranges::find(kSpecialTexts, text) != kSpecialTexts.end()) return true;
  return std::ranges::any_of(kSpecialForms, [&](const auto& form) {
    return text.size() >= form.first.size() + form.second.size() && text.starts_with(form.first) &&
           text.ends_with(form.second);
  });
}

VocabularyToken to_vocabulary_token(const AddedToken& token, float score) {
  if (token.is_special || looks_special(token.text)) return {token.text, score, text::TokenType::control};
  return {with_spaces(token.text), score, text::TokenType::user_defined};
}

Result<AddedToken> parse_added_token(const Json& json, int64_t id) {
  const auto content = json.is_object() ? json.find("content") : json.end();
  if (!json.is_object() || content == json.end() || !content->is_string())
    return fail(ErrorCode::format, "added token {}: no content", id);
  const auto special = json.find("special");
  return AddedToken{id, content->get<std::string>(), special != json.end() && *special == true};
}

Result<std::vector<AddedToken>> added_tokens_of_settings(const TokenizerFolder& folder) {
  std::vector<AddedToken> tokens;
  const Json* list = folder.setting("added_tokens_decoder");
  if (list == nullptr) return tokens;
  const auto read = [&]() -> Result<> {
    if (!list->is_object()) return fail(ErrorCode::format, "added_tokens_decoder: no object");
    for (const auto& [name, json] : list->items()) {
      TESSERA_ASSIGN(const int64_t id, parse_id(name));
      TESSERA_ASSIGN(AddedToken token, parse_added_token(json, id));
      tokens.push_back(std::move(token));
    }
    return {};
  };
  if (auto done = read(); !done) return forward_error(done, folder.path_of("tokenizer_config.json"));
  return tokens;
}

Result<> put_added_tokens(const TokenizerFolder& folder, TokenTable& tokens) {
  TESSERA_ASSIGN(const std::vector<AddedToken> in_file, read_added_tokens_file(folder));
  for (const AddedToken& token : in_file) {
    auto put = tokens.put(token.id, {token.text, kAddedScore, text::TokenType::user_defined});
    if (!put) return forward_error(put, folder.path_of("added_tokens.json"));
  }
  TESSERA_ASSIGN(const std::vector<AddedToken> in_settings, added_tokens_of_settings(folder));
  for (const AddedToken& token : in_settings) {
    VocabularyToken added = to_vocabulary_token(token, kAddedScore);
    if (!token.is_special && !class_looks_for_specials(folder.config().class_name()))
      added.type = text::TokenType::user_defined;
    auto put = tokens.put(token.id, std::move(added));
    if (!put) return forward_error(put, folder.path_of("tokenizer_config.json"));
  }
  return {};
}

void mark_named_tokens(const TokenizerFolder& folder, TokenTable& tokens) {
  const std::vector<std::string> names = folder.named_tokens();
  for (VocabularyToken& token : tokens.all())
    if (token.type == text::TokenType::normal && std::ranges::binary_search(names, token.text))
      token.type = text::TokenType::control;
}

}  // namespace tessera::convert
