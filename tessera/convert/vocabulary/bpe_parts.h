// Tokens and merges of BPE vocabularies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/vocabulary/token_table.h"
#include "tessera/json/json.h"

namespace tessera::convert {

struct BpeMerge {
  std::string left{}, right{};
};

/// "a b". Error: format.
Result<BpeMerge> parse_merge(std::string_view text);
/// A list of texts "a b" or of pairs. Error: format.
Result<std::vector<BpeMerge>> parse_merges(const Json& json);

/// As GGUF files have it: a space within a part is U+0120.
std::string merge_text(const BpeMerge& merge);

/// Adds the normal tokens of an object {text: id}. Errors: format (no object, an id that is no integer); those of
/// TokenTable::add().
Result<> add_bpe_tokens(const Json& json, TokenTable& tokens);

/// The numbers of the tokens that merges make, one per merge. Error: format (a part or a result is no token).
Result<std::vector<uint32_t>> check_merges(const std::vector<BpeMerge>& merges, const TokenTable& tokens);

}  // namespace tessera::convert
