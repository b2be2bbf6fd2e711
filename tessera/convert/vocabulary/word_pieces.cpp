#include "tessera/convert/vocabulary/word_pieces.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tessera/text/space_sign.h"

namespace tessera::convert {

namespace {

constexpr std::array<std::string_view, 5> kBertSpecials{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

void spell_word_piece(std::string_view continuation, VocabularyToken& token) {
  if (std::ranges::find(kBertSpecials, token.text) != kBertSpecials.end()) token.type = text::TokenType::control;
  if (token.type != text::TokenType::normal) return;
  if (!continuation.empty() && token.text.starts_with(continuation) && token.text.size() > continuation.size())
    token.text.erase(0, continuation.size());
  else
    token.text.insert(0, text::kSpaceSign);
}

}  // namespace

void set_word_piece_rules(const TokenizerFolder& folder, const WordPieceRules& rules, VocabularyDraft& draft) {
  for (VocabularyToken& token : draft.tokens.all()) spell_word_piece(rules.continuation, token);
  draft.vocabulary.model = "bert";
  draft.vocabulary.pre = "default";
  const auto lowercase = rules.lowercase ? rules.lowercase : folder.flag_setting("do_lower_case");
  const auto strips = rules.strip_accents ? rules.strip_accents : folder.flag_setting("strip_accents");
  draft.vocabulary.lowercase = lowercase.value_or(true);
  draft.vocabulary.strip_accents = strips.value_or(*draft.vocabulary.lowercase);
  draft.adds_bos = draft.adds_eos = true;
}

}  // namespace tessera::convert
