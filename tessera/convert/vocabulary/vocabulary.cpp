#include "tessera/convert/vocabulary/vocabulary.h"

#include <string_view>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"

namespace tessera::convert {

namespace {

constexpr std::array<std::pair<text::SpecialToken, std::string_view>, text::kNSpecialTokens> kSpecialTokenKeys{{
    {text::SpecialToken::bos, keys::kBosId},
    {text::SpecialToken::eos, keys::kEosId},
    {text::SpecialToken::unknown, keys::kUnknownId},
    {text::SpecialToken::separator, keys::kSeparatorId},
    {text::SpecialToken::padding, keys::kPaddingId},
    {text::SpecialToken::cls, keys::kClsId},
    {text::SpecialToken::mask, keys::kMaskId},
    {text::SpecialToken::eot, keys::kEotId},
    {text::SpecialToken::eom, keys::kEomId},
    {text::SpecialToken::fim_prefix, keys::kFimPrefixId},
    {text::SpecialToken::fim_suffix, keys::kFimSuffixId},
    {text::SpecialToken::fim_middle, keys::kFimMiddleId},
    {text::SpecialToken::fim_pad, keys::kFimPaddingId},
    {text::SpecialToken::fim_repo, keys::kFimRepositoryId},
    {text::SpecialToken::fim_separator, keys::kFimSeparatorId},
}};

std::vector<int32_t> type_numbers(const Vocabulary& vocabulary) {
  std::vector<int32_t> numbers;
  numbers.reserve(vocabulary.types.size());
  for (const text::TokenType type : vocabulary.types) numbers.push_back(static_cast<int32_t>(type));
  return numbers;
}

template <class T>
void set_if_known(GgufBuilder& builder, std::string_view key, const std::optional<T>& value) {
  if (value) builder.set(key, *value);
}

void add_templates(const Vocabulary& vocabulary, GgufBuilder& builder) {
  if (!vocabulary.chat_template.empty()) builder.set(keys::kChatTemplate, vocabulary.chat_template);
  std::vector<std::string> names;
  for (const auto& [name, source] : vocabulary.named_templates) {
    builder.set(std::string(keys::kChatTemplate) + "." + name, source);
    names.push_back(name);
  }
  if (!names.empty()) builder.set_array("tokenizer.chat_templates", names);
}

}  // namespace

Result<> check_vocabulary(const Vocabulary& vocabulary) {
  text::VocabData data;
  data.model = vocabulary.model;
  data.pre = vocabulary.pre;
  data.tokens.assign(vocabulary.tokens.begin(), vocabulary.tokens.end());
  if (!vocabulary.scores.empty()) data.scores = vocabulary.scores;
  data.types = type_numbers(vocabulary);
  data.merges.assign(vocabulary.merges.begin(), vocabulary.merges.end());
  for (size_t i = 0; i < text::kNSpecialTokens; ++i)
    if (vocabulary.special_ids[i]) data.special_ids[i] = *vocabulary.special_ids[i];
  TESSERA_TRY(text::Vocab::create(std::move(data)));
  return {};
}

Result<> add_vocabulary(const Vocabulary& vocabulary, GgufBuilder& builder) {
  const size_t n_tokens = vocabulary.tokens.size();
  if (vocabulary.types.size() != n_tokens || (!vocabulary.scores.empty() && vocabulary.scores.size() != n_tokens))
    return fail(ErrorCode::mismatch, "vocabulary: {} tokens, {} types, {} scores", n_tokens, vocabulary.types.size(),
                vocabulary.scores.size());
  builder.set(keys::kTokenizerModel, vocabulary.model);
  if (!vocabulary.pre.empty()) builder.set(keys::kTokenizerPre, vocabulary.pre);
  builder.set_array(keys::kTokens, vocabulary.tokens);
  if (!vocabulary.scores.empty()) builder.set_array(keys::kScores, vocabulary.scores);
  builder.set_array(keys::kTokenTypes, type_numbers(vocabulary));
  if (!vocabulary.merges.empty()) builder.set_array(keys::kMerges, vocabulary.merges);
  for (const auto& [which, key] : kSpecialTokenKeys) set_if_known(builder, key, vocabulary.special_ids[to_size(which)]);
  set_if_known(builder, keys::kAddBos, vocabulary.add_bos);
  set_if_known(builder, keys::kAddEos, vocabulary.add_eos);
  set_if_known(builder, keys::kAddSep, vocabulary.add_sep);
  set_if_known(builder, keys::kAddSpacePrefix, vocabulary.add_space_prefix);
  set_if_known(builder, keys::kRemoveExtraWhitespaces, vocabulary.remove_extra_whitespaces);
  set_if_known(builder, keys::kLowercase, vocabulary.lowercase);
  set_if_known(builder, keys::kStripAccents, vocabulary.strip_accents);
  set_if_known(builder, keys::kTokenTypeCount, vocabulary.token_type_count);
  if (!vocabulary.charsmap.empty()) builder.set_array(keys::kPrecompiledCharsmap, vocabulary.charsmap);
  add_templates(vocabulary, builder);
  return {};
}

}  // namespace tessera::convert
