#include "tessera/convert/vocabulary/text_vocabularies.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/bpe_parts.h"
#include "tessera/convert/vocabulary/text_lines.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/convert/vocabulary/word_pieces.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kVersionLine = "#version";  // the first line of merges.txt

Result<std::vector<BpeMerge>> read_merges_txt(const TokenizerFolder& folder) {
  TESSERA_ASSIGN(const std::string text, folder.read_text("merges.txt"));
  std::vector<BpeMerge> merges;
  TESSERA_TRY(for_each_line(text, folder.path_of("merges.txt"), [&](std::string_view line) -> Result<> {
    if (line.empty() || (merges.empty() && line.starts_with(kVersionLine))) return {};
    TESSERA_ASSIGN(BpeMerge merge, parse_merge(line));
    merges.push_back(std::move(merge));
    return {};
  }));
  return merges;
}

/// GPT-2's, unless the class of the model has another name for it.
std::string pre_of_class(const TokenizerFolder& folder) {
  if (!folder.options().pre.empty()) return folder.options().pre;
  const std::string_view name = class_pre(folder.config().class_name());
  return name.empty() ? "gpt-2" : std::string(name);
}

}  // namespace

Result<std::optional<VocabularyDraft>> read_vocab_and_merges(const TokenizerFolder& folder) {
  if (!folder.first_of({"vocab.json"}) || !folder.first_of({"merges.txt"})) return std::nullopt;
  TESSERA_ASSIGN(const JsonTree json, folder.read_json_file("vocab.json"));
  VocabularyDraft draft;
  draft.file = folder.path_of("vocab.json");
  draft.vocabulary.model = "gpt2";
  draft.vocabulary.pre = pre_of_class(folder);
  if (auto added = add_bpe_tokens(*json, draft.tokens); !added) return forward_error(added, draft.file);
  TESSERA_ASSIGN(const std::vector<BpeMerge> merges, read_merges_txt(folder));
  if (auto checked = check_merges(merges, draft.tokens); !checked)
    return forward_error(checked, folder.path_of("merges.txt"));
  for (const BpeMerge& merge : merges) draft.vocabulary.merges.push_back(merge_text(merge));
  TESSERA_TRY(put_added_tokens(folder, draft.tokens));
  mark_named_tokens(folder, draft.tokens);
  return draft;
}

Result<std::optional<VocabularyDraft>> read_vocab_txt(const TokenizerFolder& folder) {
  if (!folder.first_of({"vocab.txt"})) return std::nullopt;
  TESSERA_ASSIGN(const std::string text, folder.read_text("vocab.txt"));
  VocabularyDraft draft;
  draft.file = folder.path_of("vocab.txt");
  TESSERA_TRY(for_each_line(text, draft.file, [&](std::string_view line) -> Result<> {
    if (!text::is_valid_utf8(line)) return fail(ErrorCode::format, "{}: not UTF-8", text::quote_text(line));
    return draft.tokens.add(static_cast<int64_t>(draft.tokens.n_ids()),
                            {std::string(line), 0, text::TokenType::normal});
  }));
  TESSERA_TRY(put_added_tokens(folder, draft.tokens));
  mark_named_tokens(folder, draft.tokens);
  set_word_piece_rules(folder, WordPieceRules{}, draft);
  return draft;
}

}  // namespace tessera::convert
