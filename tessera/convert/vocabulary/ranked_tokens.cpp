#include "tessera/convert/vocabulary/ranked_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/base64.h"
#include "tessera/convert/vocabulary/pre_steps.h"
#include "tessera/convert/vocabulary/text_index.h"
#include "tessera/convert/vocabulary/text_lines.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/byte_signs.h"
#include "tessera/text/merge_list.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxRankedBytes = 512, kMaxAllRankedBytes = size_t{16} << 20;

// The special tokens of files of version 3, which do not list them. The others up to their number are <SPECIAL_i>.
constexpr std::array<std::string_view, 20> kTekkenSpecials{"<unk>",
                                                           "<s>",
                                                           "</s>",
                                                           "[INST]",
                                                           "[/INST]",
                                                           "[AVAILABLE_TOOLS]",
                                                           "[/AVAILABLE_TOOLS]",
                                                           "[TOOL_RESULTS]",
                                                           "[/TOOL_RESULTS]",
                                                           "[TOOL_CALLS]",
                                                           "[IMG]",
                                                           "<pad>",
                                                           "[IMG_BREAK]",
                                                           "[IMG_END]",
                                                           "[PREFIX]",
                                                           "[MIDDLE]",
                                                           "[SUFFIX]",
                                                           "[SYSTEM_PROMPT]",
                                                           "[/SYSTEM_PROMPT]",
                                                           "[TOOL_CONTENT]"};

/// Splits one token after another into the parts that merging leaves.
class RankSplitter {
 public:
  RankSplitter(const std::vector<std::string>& tokens, const TextIndex& ranks) : tokens_(tokens), ranks_(ranks) {}

  /// Appends the merge of a token; false if there are other than two parts.
  bool add_merge(uint32_t rank, std::vector<std::string>& merges) {
    const std::string_view bytes = tokens_[rank];
    list_.clear();
    for (size_t i = 0; i < bytes.size(); ++i) list_.add(i, 0);
    list_.merge(bytes.size(), [&](const text::MergeSymbol& left, const text::MergeSymbol&, size_t end) -> text::Joined {
      const auto joined = ranks_.find(bytes.substr(left.begin, end - left.begin));
      return joined && *joined < rank ? text::Joined{*joined, 0} : text::Joined{};
    });
    size_t n_parts = 0, split = 0;
    const auto counted = list_.for_each([&](const text::MergeSymbol& symbol, size_t) -> Result<> {
      if (++n_parts == 2) split = symbol.begin;
      return {};
    });
    if (!counted || n_parts != 2) return false;
    merges.push_back(spell_bytes(bytes.substr(0, split)) + " " + spell_bytes(bytes.substr(split)));
    return true;
  }

 private:
  const std::vector<std::string>& tokens_;
  const TextIndex& ranks_;
  text::MergeList list_;
};

/// Adds the tokens of ranks, from an id on, and their merges.
Result<> add_ranked(const TokenizerFolder& folder, const std::vector<std::string>& tokens, int64_t first_id,
                    VocabularyDraft& draft) {
  TESSERA_ASSIGN(RankedMerges merges, merges_of_ranks(tokens));
  draft.vocabulary.model = "gpt2";
  draft.vocabulary.merges = std::move(merges.merges);
  if (merges.n_unreached > 0)
    folder.warn(fmt::format("{}: {} tokens cannot be made by merges of lower ranks", draft.file, merges.n_unreached));
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    if (!tokens[rank].empty())
      TESSERA_TRY(draft.tokens.add(first_id + static_cast<int64_t>(rank),
                                   {spell_bytes(tokens[rank]), 0, text::TokenType::normal}));
  return {};
}

/// Puts the bytes of a rank into a list with room for it.
Result<> put_rank(int64_t rank, std::string bytes, std::vector<std::string>& tokens) {
  if (rank < 0 || static_cast<uint64_t>(rank) >= kMaxVocabularyTokens)
    return fail(ErrorCode::limit, "rank {}, want 0 to {}", rank, kMaxVocabularyTokens - 1);
  if (bytes.empty()) return fail(ErrorCode::format, "rank {}: an empty token", rank);
  if (to_size(rank) >= tokens.size()) tokens.resize(to_size(rank) + 1);
  if (!tokens[to_size(rank)].empty()) return fail(ErrorCode::format, "two tokens of rank {}", rank);
  tokens[to_size(rank)] = std::move(bytes);
  return {};
}

Result<int64_t> integer_member(const Json& json, std::string_view name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_number_integer())
    return fail(ErrorCode::format, "no integer {}", name);
  return found->get<int64_t>();
}

Result<std::string> string_member(const Json& json, std::string_view name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string())
    return fail(ErrorCode::format, "no text {}", name);
  return found->get<std::string>();
}

Result<std::vector<std::string>> tekken_ranks(const Json& json, int64_t n_ranks) {
  const auto list = json.find("vocab");
  if (list == json.end() || !list->is_array()) return fail(ErrorCode::format, "no list vocab");
  std::vector<std::string> tokens;
  for (const Json& item : *list) {
    TESSERA_ASSIGN(const int64_t rank, integer_member(item, "rank"));
    TESSERA_ASSIGN(const std::string digits, string_member(item, "token_bytes"));
    TESSERA_ASSIGN(std::string bytes, decode_base64(digits));
    if (rank < n_ranks) TESSERA_TRY(put_rank(rank, std::move(bytes), tokens));
  }
  return tokens;
}

Result<> add_tekken_specials(const Json& json, int64_t n_special, TokenTable& tokens) {
  const auto list = json.find("special_tokens");
  if (list != json.end() && list->is_array()) {
    for (const Json& item : *list) {
      TESSERA_ASSIGN(const int64_t id, integer_member(item, "rank"));
      TESSERA_ASSIGN(std::string text, string_member(item, "token_str"));
      if (id >= n_special) return fail(ErrorCode::format, "special token {}: the limit is {}", id, n_special);
      TESSERA_TRY(tokens.add(id, {std::move(text), 0, text::TokenType::control}));
    }
  } else {
    for (size_t i = 0; i < kTekkenSpecials.size() && static_cast<int64_t>(i) < n_special; ++i)
      TESSERA_TRY(tokens.add(static_cast<int64_t>(i), {std::string(kTekkenSpecials[i]), 0, text::TokenType::control}));
  }
  for (int64_t id = 0; id < n_special; ++id)
    if (tokens.find(id) == nullptr)
      TESSERA_TRY(tokens.add(id, {fmt::format("<SPECIAL_{}>", id), 0, text::TokenType::control}));
  return {};
}

Result<> fill_tekken(const TokenizerFolder& folder, const Json& json, VocabularyDraft& draft) {
  const auto config = json.is_object() ? json.find("config") : json.end();
  if (!json.is_object() || config == json.end()) return fail(ErrorCode::format, "no object config");
  TESSERA_ASSIGN(const int64_t n_tokens, integer_member(*config, "default_vocab_size"));
  TESSERA_ASSIGN(const int64_t n_special, integer_member(*config, "default_num_special_tokens"));
  TESSERA_ASSIGN(const std::string pattern, string_member(*config, "pattern"));
  if (n_special < 0 || n_tokens < n_special || n_tokens > static_cast<int64_t>(kMaxVocabularyTokens))
    return fail(ErrorCode::limit, "{} tokens, {} of them special, limit {}", n_tokens, n_special, kMaxVocabularyTokens);
  TESSERA_ASSIGN(const std::vector<std::string> tokens, tekken_ranks(json, n_tokens - n_special));
  TESSERA_TRY(add_tekken_specials(json, n_special, draft.tokens));
  TESSERA_TRY(add_ranked(folder, tokens, n_special, draft));
  draft.vocabulary.pre = folder.options().pre;
  if (draft.vocabulary.pre.empty()) {
    std::vector<std::string> warnings;
    TESSERA_ASSIGN(draft.vocabulary.pre,
                   name_pre_tokenizer(steps_of_pattern(pattern), true, folder.config().class_name(), warnings));
    for (std::string& warning : warnings) folder.warn(draft.file + ": " + warning);
  }
  draft.bos_id = 1;
  draft.eos_id = 2;
  draft.unk_id = 0;
  draft.adds_bos = true;
  return {};
}

Result<std::optional<std::string>> find_ranked_file(const TokenizerFolder& folder) {
  if (auto name = folder.first_of({"tiktoken.model"})) return name;
  TESSERA_ASSIGN(const auto names, folder.names_like("", "", ".tiktoken"));
  if (!names.empty()) return names.front();
  return folder.first_of({"tokenizer.model"});
}

}  // namespace

bool is_ranked_text(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), kMaxRankedBytes * 2));
  const size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return false;
  const std::string_view number = line.substr(space + 1, line.ends_with('\r') ? line.size() - space - 2 : line.size());
  return decode_base64(line.substr(0, space)).has_value() && parse_decimal(number).has_value();
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) text::append_utf8(text::kByteSigns.sign[static_cast<uint8_t>(c)], out);
  return out;
}

Result<RankedMerges> merges_of_ranks(const std::vector<std::string>& tokens) {
  TextIndex ranks(tokens.size());
  size_t n_bytes = 0;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string& token = tokens[rank];
    n_bytes += token.size();
    if (token.size() > kMaxRankedBytes || n_bytes > kMaxAllRankedBytes)
      return fail(ErrorCode::limit, "rank {}: more than {} bytes, or more than {} bytes of tokens", rank,
                  kMaxRankedBytes, kMaxAllRankedBytes);
    if (!token.empty() && !ranks.add(token, static_cast<uint32_t>(rank)))
      return fail(ErrorCode::format, "rank {}: token {} has another rank too", rank, text::quote_text(token));
  }
  RankedMerges result;
  RankSplitter splitter(tokens, ranks);
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    if (tokens[rank].size() > 1 && !splitter.add_merge(static_cast<uint32_t>(rank), result.merges))
      ++result.n_unreached;
  return result;
}

Result<std::optional<VocabularyDraft>> read_tekken(const TokenizerFolder& folder) {
  TESSERA_ASSIGN(const JsonTree json, folder.read_json_file("tekken.json"));
  if (!json) return std::nullopt;
  VocabularyDraft draft;
  draft.file = folder.path_of("tekken.json");
  auto filled = fill_tekken(folder, *json, draft);
  if (!filled) return forward_error(filled, draft.file);
  return draft;
}

Result<std::optional<VocabularyDraft>> read_tiktoken(const TokenizerFolder& folder) {
  TESSERA_ASSIGN(const std::optional<std::string> name, find_ranked_file(folder));
  if (!name) return std::nullopt;
  TESSERA_ASSIGN(const std::string text, folder.read_text(*name));
  VocabularyDraft draft;
  draft.file = folder.path_of(*name);
  const std::string_view known = ranked_class_pre(folder.config().class_name());
  draft.vocabulary.pre = folder.options().pre.empty() ? std::string(known) : folder.options().pre;
  if (draft.vocabulary.pre.empty())
    return fail(ErrorCode::unsupported, "{}: the pre-tokenizer of {} is not known (option pre names one)", draft.file,
                text::quote_text(folder.config().class_name()));
  std::vector<std::string> tokens;
  TESSERA_TRY(for_each_line(text, draft.file, [&](std::string_view line) -> Result<> {
    const size_t space = std::min(line.find(' '), line.size());
    TESSERA_ASSIGN(std::string bytes, decode_base64(line.substr(0, space)));
    TESSERA_ASSIGN(const int64_t rank, parse_decimal(line.substr(std::min(space + 1, line.size()))));
    return put_rank(rank, std::move(bytes), tokens);
  }));
  if (auto added = add_ranked(folder, tokens, 0, draft); !added) return forward_error(added, draft.file);
  TESSERA_TRY(put_added_tokens(folder, draft.tokens));
  return draft;
}

}  // namespace tessera::convert
