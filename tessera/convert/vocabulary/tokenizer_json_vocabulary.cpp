#include "tessera/convert/vocabulary/tokenizer_json_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/bpe_parts.h"
#include "tessera/convert/vocabulary/pre_steps.h"
#include "tessera/convert/vocabulary/tokenizer_parts.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/convert/vocabulary/word_pieces.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

enum class ModelKind : uint8_t { bpe, unigram, word_piece };

/// The parts of a file that all models have.
struct TokenizerParts {
  const Json* model = nullptr;
  NormalizerFacts normalizer{};
  PreTokenizerSteps pre{};
  std::vector<AddedToken> added{};
};

const Json& member_or_null(const Json& json, std::string_view name) {
  static const Json kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

bool is_true(const Json& json, std::string_view name) { return member_or_null(json, name) == true; }

std::string shown_json(const Json& json) {
  return text::quote_text(json.is_string() ? json.get_ref<const std::string&>() : json.dump(-1, ' ', true));
}

/// Files of old versions do not name the kind of their model.
Result<ModelKind> kind_of_model(const Json& model) {
  const Json& type = member_or_null(model, "type");
  if (type == "BPE" || (type.is_null() && model.contains("merges"))) return ModelKind::bpe;
  if (type == "Unigram" || (type.is_null() && member_or_null(model, "vocab").is_array())) return ModelKind::unigram;
  if (type == "WordPiece" || (type.is_null() && model.contains("continuing_subword_prefix")))
    return ModelKind::word_piece;
  return fail(ErrorCode::unsupported, "model: type {}, want BPE, Unigram or WordPiece", shown_json(type));
}

bool is_byte_text(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEFabcdef") == std::string_view::npos;
}

void mark_byte_tokens(TokenTable& tokens) {
  for (VocabularyToken& token : tokens.all())
    if (token.type == text::TokenType::normal && is_byte_text(token.text)) token.type = text::TokenType::byte;
}

void mark_unknown_token(const Json& text, TokenTable& tokens) {
  if (!text.is_string()) return;
  for (VocabularyToken& token : tokens.all())
    if (token.text == text.get_ref<const std::string&>()) token.type = text::TokenType::unknown;
}

/// Adds a token behind the model's, or gives a token of the model the type of an added one.
Result<> put_added_token(const AddedToken& added, float score, TokenTable& tokens) {
  VocabularyToken token = to_vocabulary_token(added, score);
  const VocabularyToken* known = tokens.find(added.id);
  if (known != nullptr && known->text != added.text && known->text != token.text)
    return fail(ErrorCode::format, "tokens {} and {} have the same id {}", text::quote_text(known->text),
                text::quote_text(added.text), added.id);
  return tokens.put(added.id, std::move(token));
}

/// The tokens of the file, and those of tokenizer_config.json that it lacks.
Result<> put_all_added_tokens(const TokenizerFolder& folder, const std::vector<AddedToken>& added, float score,
                              TokenTable& tokens) {
  for (const AddedToken& token : added) TESSERA_TRY(put_added_token(token, score, tokens));
  TESSERA_ASSIGN(const std::vector<AddedToken> in_settings, added_tokens_of_settings(folder));
  for (const AddedToken& token : in_settings)
    if (tokens.find(token.id) == nullptr) TESSERA_TRY(put_added_token(token, score, tokens));
  return {};
}

Result<> refuse_word_marks(const Json& model) {
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& mark = member_or_null(model, name);
    if (!mark.is_null() && mark != "") return fail(ErrorCode::unsupported, "model: {} {}", name, shown_json(mark));
  }
  return {};
}

/// Scores by which merging by score does what the merges do: minus the rank of the first merge that makes a token. A
/// token that no merge makes comes last; single characters have 0.
void score_by_merges(const std::vector<uint32_t>& made, TokenTable& tokens) {
  for (VocabularyToken& token : tokens.all()) {
    const bool is_single =
        text::next_utf8(token.text.empty() ? std::string_view(" ") : token.text).n_bytes >= token.text.size();
    if (token.type == text::TokenType::normal && !is_single) token.score = -static_cast<float>(made.size());
  }
  for (size_t rank = made.size(); rank-- > 0;) {
    VocabularyToken& token = tokens.all()[made[rank]];
    if (token.type == text::TokenType::normal) token.score = -static_cast<float>(rank);
  }
}

/// Behind the tokens of the model only those that tokenizer_config.json names are control tokens, as in the reference.
void keep_named_specials(const std::vector<std::string>& names, size_t n_model, TokenTable& tokens) {
  for (size_t id = n_model; id < tokens.n_ids(); ++id) {
    VocabularyToken& token = tokens.all()[id];
    if (token.type == text::TokenType::control && !std::ranges::binary_search(names, token.text))
      token.type = text::TokenType::user_defined;
  }
}

Result<> fill_byte_fallback(const TokenizerFolder& folder, const TokenizerParts& parts,
                            const std::vector<BpeMerge>& merges, const std::vector<uint32_t>& made,
                            VocabularyDraft& draft) {
  Vocabulary& vocabulary = draft.vocabulary;
  const bool is_own_model = is_gemma4(folder.config().class_name());
  vocabulary.model = is_own_model ? "gemma4" : "llama";
  if (!is_own_model) vocabulary.pre = "default";
  vocabulary.add_space_prefix = parts.normalizer.prepends_space || parts.pre.adds_space.value_or(false);
  if (const auto said = folder.flag_setting("add_prefix_space")) vocabulary.add_space_prefix = *said;
  draft.has_scores = true;
  draft.padding_score = kPaddingScore;
  mark_byte_tokens(draft.tokens);
  mark_unknown_token(member_or_null(*parts.model, "unk_token"), draft.tokens);
  score_by_merges(made, draft.tokens);
  if (is_own_model)
    for (const BpeMerge& merge : merges) vocabulary.merges.push_back(merge_text(merge));
  draft.adds_bos = true;
  const size_t n_model = draft.tokens.n_ids();
  TESSERA_TRY(put_all_added_tokens(folder, parts.added, kAddedScore, draft.tokens));
  keep_named_specials(folder.named_tokens(), n_model, draft.tokens);
  return {};
}

Result<> fill_byte_level(const TokenizerFolder& folder, const TokenizerParts& parts,
                         const std::vector<BpeMerge>& merges, VocabularyDraft& draft) {
  Vocabulary& vocabulary = draft.vocabulary;
  vocabulary.model = "gpt2";
  for (const BpeMerge& merge : merges) vocabulary.merges.push_back(merge_text(merge));
  vocabulary.pre = folder.options().pre;
  if (vocabulary.pre.empty()) {
    std::vector<std::string> warnings;
    TESSERA_ASSIGN(vocabulary.pre, name_pre_tokenizer(parts.pre.steps, is_true(*parts.model, "ignore_merges"),
                                                      folder.config().class_name(), warnings));
    for (const std::string& warning : warnings) folder.warn(draft.file + ": " + warning);
  }
  return put_all_added_tokens(folder, parts.added, 0, draft.tokens);
}

Result<> fill_bpe(const TokenizerFolder& folder, const Json& json, const TokenizerParts& parts,
                  VocabularyDraft& draft) {
  const Json& model = *parts.model;
  TESSERA_TRY(refuse_word_marks(model));
  TESSERA_TRY(add_bpe_tokens(member_or_null(model, "vocab"), draft.tokens));
  TESSERA_ASSIGN(const std::vector<BpeMerge> merges, parse_merges(member_or_null(model, "merges")));
  TESSERA_ASSIGN(const std::vector<uint32_t> made, check_merges(merges, draft.tokens));
  const Json& decoder = member_or_null(json, "decoder");
  const bool decodes_bytes = decoder.is_object() && member_or_null(decoder, "type") == "ByteLevel";
  if (parts.pre.has_byte_level || parts.normalizer.has_byte_level || decodes_bytes)
    return fill_byte_level(folder, parts, merges, draft);
  if (is_true(model, "byte_fallback") && (parts.normalizer.replaces_spaces || parts.pre.adds_space))
    return fill_byte_fallback(folder, parts, merges, made, draft);
  return fail(ErrorCode::unsupported, "BPE neither of bytes nor with byte_fallback and U+2581 for spaces");
}

Result<> add_unigram_pieces(const Json& vocab, TokenTable& tokens) {
  if (!vocab.is_array()) return fail(ErrorCode::format, "vocab: no list");
  for (const Json& item : vocab) {
    const size_t id = tokens.n_ids();
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      return fail(ErrorCode::format, "vocab[{}]: want a text and a score", id);
    const auto score = item[1].get<double>();
    if (!(std::abs(score) <= std::numeric_limits<float>::max()))
      return fail(ErrorCode::format, "vocab[{}]: a score of {}", id, score);
    TESSERA_TRY(tokens.add(static_cast<int64_t>(id),
                           {item[0].get<std::string>(), static_cast<float>(score), text::TokenType::normal}));
  }
  return {};
}

Result<> fill_unigram(const TokenizerFolder& folder, TokenizerParts& parts, VocabularyDraft& draft) {
  const Json& model = *parts.model;
  TESSERA_TRY(add_unigram_pieces(member_or_null(model, "vocab"), draft.tokens));
  if (is_true(model, "byte_fallback")) mark_byte_tokens(draft.tokens);
  const Json& unk = member_or_null(model, "unk_id");
  if (unk.is_number_integer()) {
    draft.unk_id = unk.get<int64_t>();
    if (draft.tokens.find(*draft.unk_id) == nullptr)
      return fail(ErrorCode::format, "unk_id {} of {} tokens", *draft.unk_id, draft.tokens.n_ids());
  }
  Vocabulary& vocabulary = draft.vocabulary;
  vocabulary.model = "t5";
  vocabulary.pre = "default";
  vocabulary.add_space_prefix = parts.pre.adds_space.value_or(parts.normalizer.prepends_space);
  vocabulary.remove_extra_whitespaces = parts.normalizer.removes_extra_spaces || parts.pre.splits_at_spaces;
  vocabulary.charsmap.assign(parts.normalizer.charsmap.begin(), parts.normalizer.charsmap.end());
  draft.has_scores = true;
  draft.padding_score = kPaddingScore;
  TESSERA_TRY(put_all_added_tokens(folder, parts.added, 0, draft.tokens));
  if (draft.unk_id) draft.tokens.all()[to_size(*draft.unk_id)].type = text::TokenType::unknown;
  return {};
}

Result<> fill_word_piece(const TokenizerFolder& folder, const TokenizerParts& parts, VocabularyDraft& draft) {
  const Json& model = *parts.model;
  TESSERA_TRY(add_bpe_tokens(member_or_null(model, "vocab"), draft.tokens));
  TESSERA_TRY(put_all_added_tokens(folder, parts.added, 0, draft.tokens));
  WordPieceRules rules{.lowercase = parts.normalizer.lowercase, .strip_accents = parts.normalizer.strip_accents};
  const Json& prefix = member_or_null(model, "continuing_subword_prefix");
  if (prefix.is_string()) rules.continuation = prefix.get<std::string>();
  set_word_piece_rules(folder, rules, draft);
  return {};
}

}  // namespace

Result<VocabularyDraft> tokenizer_json_draft(const Json& json, const TokenizerFolder& folder) {
  VocabularyDraft draft;
  draft.file = folder.path_of("tokenizer.json");
  if (!json.is_object() || !member_or_null(json, "model").is_object())
    return fail(ErrorCode::format, "no object model");
  TokenizerParts parts{.model = &member_or_null(json, "model")};
  TESSERA_ASSIGN(parts.normalizer, read_normalizer(member_or_null(json, "normalizer")));
  TESSERA_ASSIGN(parts.pre, flatten_pre_tokenizer(member_or_null(json, "pre_tokenizer")));
  TESSERA_ASSIGN(parts.added, read_added_tokens(member_or_null(json, "added_tokens")));
  TESSERA_ASSIGN(draft.ends, read_post_processor(member_or_null(json, "post_processor")));
  TESSERA_ASSIGN(const ModelKind kind, kind_of_model(*parts.model));
  if (kind == ModelKind::bpe) TESSERA_TRY(fill_bpe(folder, json, parts, draft));
  if (kind == ModelKind::unigram) TESSERA_TRY(fill_unigram(folder, parts, draft));
  if (kind == ModelKind::word_piece) TESSERA_TRY(fill_word_piece(folder, parts, draft));
  return draft;
}

Result<std::optional<VocabularyDraft>> read_tokenizer_json(const TokenizerFolder& folder) {
  TESSERA_ASSIGN(const JsonTree json, folder.read_json_file("tokenizer.json"));
  if (!json) return std::nullopt;
  auto draft = tokenizer_json_draft(*json, folder);
  if (!draft) return forward_error(draft, folder.path_of("tokenizer.json"));
  return std::optional(std::move(*draft));
}

}  // namespace tessera::convert
