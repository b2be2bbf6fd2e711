#include "tessera/convert/vocabulary/read_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/chat_templates.h"
#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/plamo_vocabulary.h"
#include "tessera/convert/vocabulary/ranked_tokens.h"
#include "tessera/convert/vocabulary/rwkv_vocabulary.h"
#include "tessera/convert/vocabulary/sentencepiece.h"
#include "tessera/convert/vocabulary/special_tokens.h"
#include "tessera/convert/vocabulary/text_vocabularies.h"
#include "tessera/convert/vocabulary/tokenizer_json_vocabulary.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

using VocabularyReader = Result<std::optional<VocabularyDraft>> (*)(const TokenizerFolder&);
constexpr std::array<VocabularyReader, 8> kVocabularyReaders{
    read_sentencepiece, read_tokenizer_json, read_vocab_and_merges, read_vocab_txt,
    read_rwkv,          read_plamo,          read_tekken,           read_tiktoken};

// Texts of Gemma 4 that its programs must see in the output.
constexpr std::array<std::string_view, 7> kGemma4Visible{
    "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"};

Result<VocabularyDraft> read_draft(const TokenizerFolder& folder) {
  for (const VocabularyReader reader : kVocabularyReaders) {
    TESSERA_ASSIGN(std::optional<VocabularyDraft> draft, reader(folder));
    if (draft) return std::move(*draft);
  }
  return fail(ErrorCode::not_found,
              "{}: no vocabulary: none of tokenizer.model, spiece.model, sentencepiece.bpe.model, tokenizer.json, "
              "vocab.json with merges.txt, vocab.txt, rwkv_vocab_*.txt, tokenizer.jsonl, tekken.json, tiktoken.model, "
              "*.tiktoken",
              folder.path());
}

/// Gives the vocabulary as many tokens as the model has. Added tokens that the model lacks are dropped.
Result<> fit_to_model(const TokenizerFolder& folder, VocabularyDraft& draft) {
  const HubConfig& config = folder.config();
  TokenTable& tokens = draft.tokens;
  TESSERA_ASSIGN(const auto stated, config.integer({"vocab_size"}, 1, static_cast<int64_t>(kMaxVocabularyTokens)));
  const size_t n_model = stated ? to_size(*stated) : tokens.n_ids();
  std::vector<std::string_view> left_out;
  for (size_t id = n_model; id < tokens.n_ids(); ++id) {
    const VocabularyToken& token = tokens.all()[id];
    if (token.type == text::TokenType::control || token.type == text::TokenType::user_defined)
      left_out.push_back(token.text);
    else if (token.type != text::TokenType::undefined)
      return fail(ErrorCode::format, "{}: token {} has the id {}, but vocab_size is {}", draft.file,
                  text::quote_text(token.text), id, n_model);
  }
  if (!left_out.empty())
    folder.warn(fmt::format("{}: {} added tokens are left out, for vocab_size is {}; the first is {}", draft.file,
                            left_out.size(), n_model, text::quote_text(left_out.front())));
  tokens.cut(n_model);
  auto filled = tokens.fill(round_up(n_model, class_padding(config.class_name())), draft.padding_score);
  if (!filled) return forward_error(filled, draft.file);
  return {};
}

void show_gemma4_tokens(VocabularyDraft& draft) {
  for (VocabularyToken& token : draft.tokens.all())
    if (std::ranges::find(kGemma4Visible, token.text) != kGemma4Visible.end())
      token.type = text::TokenType::user_defined;
}

Result<> set_token_type_count(const HubConfig& config, Vocabulary& vocabulary) {
  TESSERA_ASSIGN(const auto count, config.integer({"type_vocab_size"}, 0, UINT32_MAX));
  if (count) vocabulary.token_type_count = static_cast<uint32_t>(*count);
  return {};
}

void move_tokens(VocabularyDraft& draft) {
  Vocabulary& vocabulary = draft.vocabulary;
  for (VocabularyToken& token : draft.tokens.all()) {
    vocabulary.tokens.push_back(std::move(token.text));
    vocabulary.types.push_back(token.type);
    if (draft.has_scores) vocabulary.scores.push_back(token.score);
  }
}

}  // namespace

Result<Vocabulary> read_vocabulary(const std::string& path, const HubConfig& config, const VocabularyOptions& options,
                                   std::vector<std::string>& warnings) {
  if (!options.pre.empty() && text::find_pre(options.pre) == nullptr)
    return fail(ErrorCode::invalid_argument, "pre-tokenizer {}: not known", text::quote_text(options.pre));
  TESSERA_ASSIGN(const TokenizerFolder folder, TokenizerFolder::open(path, config, options, warnings));
  TESSERA_ASSIGN(VocabularyDraft draft, read_draft(folder));
  TESSERA_TRY(fit_to_model(folder, draft));
  if (is_gemma4(config.class_name())) show_gemma4_tokens(draft);
  if (!class_has_space_prefix(config.class_name())) draft.vocabulary.add_space_prefix = false;
  TESSERA_TRY(set_special_ids(folder, draft));
  set_added_ends(folder, draft);
  TESSERA_TRY(set_token_type_count(config, draft.vocabulary));
  TESSERA_TRY(add_chat_templates(folder, draft.vocabulary));
  move_tokens(draft);
  auto checked = check_vocabulary(draft.vocabulary);
  if (!checked) return forward_error(checked, draft.file);
  return std::move(draft.vocabulary);
}

}  // namespace tessera::convert
