#include "tessera/convert/vocabulary/tokenizer_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tessera/convert/vocabulary/base64.h"
#include "tessera/text/space_sign.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxParts = 64;

const Json* part_of(const Json& json, std::string_view name) {
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

std::string_view text_of_part(const Json& json, std::string_view name) {
  const Json* part = part_of(json, name);
  return part != nullptr && part->is_string() ? std::string_view(part->get_ref<const std::string&>())
                                              : std::string_view{};
}

std::optional<bool> flag_of_part(const Json& json, std::string_view name) {
  const Json* part = part_of(json, name);
  return part != nullptr && part->is_boolean() ? std::optional(part->get<bool>()) : std::nullopt;
}

/// The parts of nested sequences in their order. list: the name of the parts in a sequence.
Result<std::vector<const Json*>> flatten_parts(const Json& json, std::string_view list) {
  std::vector<const Json*> parts, open{&json};
  while (!open.empty()) {
    const Json& part = *open.back();
    open.pop_back();
    if (part.is_null()) continue;
    if (!part.is_object()) return fail(ErrorCode::format, "a part that is no object");
    const Json* inner = text_of_part(part, "type") == "Sequence" ? part_of(part, list) : nullptr;
    if (inner == nullptr || !inner->is_array()) {
      parts.push_back(&part);
    } else {
      if (inner->size() > kMaxParts) return fail(ErrorCode::limit, "more than {} parts", kMaxParts);
      for (auto next = inner->rbegin(); next != inner->rend(); ++next) open.push_back(&*next);
    }
    if (parts.size() > kMaxParts) return fail(ErrorCode::limit, "more than {} parts", kMaxParts);
  }
  return parts;
}

void read_replacement(const Json& json, NormalizerFacts& facts) {
  const Json* pattern = part_of(json, "pattern");
  if (pattern == nullptr || !pattern->is_object()) return;
  const std::string_view content = text_of_part(json, "content");
  if (text_of_part(*pattern, "String") == " " && content == text::kSpaceSign) facts.replaces_spaces = true;
  if (text_of_part(*pattern, "Regex") == " {2,}") facts.removes_extra_spaces = true;
}

Result<> read_normalizer_part(const Json& part, NormalizerFacts& facts) {
  const std::string_view type = text_of_part(part, "type");
  if (type == "Prepend") facts.prepends_space |= text_of_part(part, "prepend") == text::kSpaceSign;
  if (type == "Replace") read_replacement(part, facts);
  if (type == "Strip") facts.removes_extra_spaces = true;
  if (type == "ByteLevel") facts.has_byte_level = true;
  if (type == "Lowercase") facts.lowercase = true;
  if (type == "StripAccents") facts.strip_accents = true;
  if (type == "BertNormalizer") {
    facts.lowercase = flag_of_part(part, "lowercase");
    facts.strip_accents = flag_of_part(part, "strip_accents");
  }
  if (type == "Precompiled") {
    auto bytes = decode_base64(text_of_part(part, "precompiled_charsmap"));
    if (!bytes) return forward_error(bytes, "precompiled_charsmap");
    facts.charsmap = std::move(*bytes);
  }
  return {};
}

/// One text of a template: tokens before, between and behind its sequences.
struct TemplateTokens {
  std::vector<std::string> before{}, between{}, behind{};
};

Result<TemplateTokens> read_template(const Json* json) {
  TemplateTokens tokens;
  if (json == nullptr || json->is_null()) return tokens;
  if (!json->is_array() || json->size() > kMaxParts)
    return fail(ErrorCode::format, "a template is no list of at most {} parts", kMaxParts);
  bool has_sequence = false;
  for (const Json& item : *json) {
    if (item.is_object() && item.contains("Sequence")) {
      std::ranges::move(tokens.behind, std::back_inserter(tokens.between));
      tokens.behind.clear();
      has_sequence = true;
      continue;
    }
    const Json* token = item.is_object() ? part_of(item, "SpecialToken") : nullptr;
    const std::string_view text = token != nullptr && token->is_object() ? text_of_part(*token, "id") : "";
    if (text.empty()) return fail(ErrorCode::format, "a template has a part that is neither a token nor a text");
    (has_sequence ? tokens.behind : tokens.before).emplace_back(text);
  }
  return tokens;
}

/// Whether more is between two texts than what is around each of them.
bool has_separator(const TemplateTokens& single, std::vector<std::string> between) {
  for (const std::vector<std::string>* known : {&single.behind, &single.before})
    for (const std::string& token : *known)
      if (const auto found = std::ranges::find(between, token); found != between.end()) between.erase(found);
  return !between.empty();
}

Result<TextEnds> read_template_processing(const Json& part) {
  TESSERA_ASSIGN(TemplateTokens single, read_template(part_of(part, "single")));
  TESSERA_ASSIGN(TemplateTokens pair, read_template(part_of(part, "pair")));
  const bool separates = has_separator(single, std::move(pair.between));
  return TextEnds{std::move(single.before), std::move(single.behind), separates};
}

/// The text of a pair of a token and its id.
Result<std::string> token_of_pair(const Json& part, std::string_view name) {
  const Json* pair = part_of(part, name);
  if (pair == nullptr || !pair->is_array() || pair->empty() || !pair->front().is_string())
    return fail(ErrorCode::format, "{}: want a token and its id", name);
  return pair->front().get<std::string>();
}

}  // namespace

Result<NormalizerFacts> read_normalizer(const Json& json) {
  NormalizerFacts facts;
  const auto read = [&]() -> Result<> {
    TESSERA_ASSIGN(const std::vector<const Json*> parts, flatten_parts(json, "normalizers"));
    for (const Json* part : parts) TESSERA_TRY(read_normalizer_part(*part, facts));
    return {};
  };
  if (auto done = read(); !done) return forward_error(done, "normalizer");
  return facts;
}

Result<std::optional<TextEnds>> read_post_processor(const Json& json) {
  const auto read = [&]() -> Result<std::optional<TextEnds>> {
    TESSERA_ASSIGN(const std::vector<const Json*> parts, flatten_parts(json, "processors"));
    for (const Json* part : parts) {
      const std::string_view type = text_of_part(*part, "type");
      if (type == "TemplateProcessing") return read_template_processing(*part);
      if (type != "RobertaProcessing" && type != "BertProcessing") continue;
      TESSERA_ASSIGN(std::string cls, token_of_pair(*part, "cls"));
      TESSERA_ASSIGN(std::string sep, token_of_pair(*part, "sep"));
      return TextEnds{{std::move(cls)}, {std::move(sep)}, type == "RobertaProcessing"};
    }
    return std::nullopt;
  };
  auto ends = read();
  if (!ends) return forward_error(ends, "post_processor");
  return ends;
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& json) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) return fail(ErrorCode::format, "added_tokens: no list");
  for (const Json& item : json) {
    const Json* id = item.is_object() ? part_of(item, "id") : nullptr;
    if (id == nullptr || !id->is_number_integer())
      return fail(ErrorCode::format, "added_tokens[{}]: no integer id", tokens.size());
    TESSERA_ASSIGN(AddedToken token, parse_added_token(item, id->get<int64_t>()));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace tessera::convert
