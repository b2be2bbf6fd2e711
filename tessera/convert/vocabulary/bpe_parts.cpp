#include "tessera/convert/vocabulary/bpe_parts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/vocabulary/text_index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kSpaceInPart = "\xC4\xA0";  // U+0120

void append_part(std::string_view part, std::string& out) {
  for (const char c : part) {
    if (c == ' ')
      out += kSpaceInPart;
    else
      out += c;
  }
}

Result<BpeMerge> parse_merge_json(const Json& json) {
  if (json.is_string()) return parse_merge(json.get_ref<const std::string&>());
  if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_string())
    return fail(ErrorCode::format, "want a text or a pair of texts");
  BpeMerge merge{json[0].get<std::string>(), json[1].get<std::string>()};
  if (merge.left.empty() || merge.right.empty()) return fail(ErrorCode::format, "an empty part");
  return merge;
}

}  // namespace

Result<BpeMerge> parse_merge(std::string_view text) {
  const size_t space = text.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == text.size() || text.find(' ', space + 1) != text.npos)
    return fail(ErrorCode::format, "merge {}, want two parts and a space between", text::quote_text(text));
  return BpeMerge{std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

Result<std::vector<BpeMerge>> parse_merges(const Json& json) {
  if (!json.is_array()) return fail(ErrorCode::format, "merges: no list");
  std::vector<BpeMerge> merges;
  merges.reserve(json.size());
  for (const Json& item : json) {
    auto merge = parse_merge_json(item);
    if (!merge) return forward_error(merge, fmt::format("merges[{}]", merges.size()));
    merges.push_back(std::move(*merge));
  }
  return merges;
}

std::string merge_text(const BpeMerge& merge) {
  std::string out;
  out.reserve(merge.left.size() + merge.right.size() + 1);
  append_part(merge.left, out);
  out += ' ';
  append_part(merge.right, out);
  return out;
}

Result<> add_bpe_tokens(const Json& json, TokenTable& tokens) {
  if (!json.is_object()) return fail(ErrorCode::format, "vocab: no object");
  for (const auto& [text, id] : json.items()) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
      return fail(ErrorCode::format, "vocab: token {} has no integer as its id", text::quote_text(text));
    TESSERA_TRY(tokens.add(id.get<int64_t>(), {text, 0, text::TokenType::normal}));
  }
  return {};
}

Result<std::vector<uint32_t>> check_merges(const std::vector<BpeMerge>& merges, const TokenTable& tokens) {
  TextIndex index(tokens.n_ids());
  for (size_t id = 0; id < tokens.n_ids(); ++id)
    if (tokens.all()[id].type != text::TokenType::undefined)
      index.add(tokens.all()[id].text, static_cast<uint32_t>(id));
  std::vector<uint32_t> made;
  made.reserve(merges.size());
  std::string joined;
  for (const BpeMerge& merge : merges) {
    joined.assign(merge.left).append(merge.right);
    for (const std::string_view part :
         {std::string_view(merge.left), std::string_view(merge.right), std::string_view(joined)})
      if (!index.find(part))
        return fail(ErrorCode::format, "merge {}: {} is no token", made.size(), text::quote_text(part));
    made.push_back(*index.find(joined));
  }
  return made;
}

}  // namespace tessera::convert
