#include "tessera/train/tokenizer_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/special_matcher.h"
#include "tessera/text/utf8.h"
#include "tessera/train/tokenizer_trainer_words.h"

namespace tessera::train {
namespace {

constexpr size_t kMaxWords = std::numeric_limits<int32_t>::max();

constexpr std::string_view model_of(TokenizerKind kind) { return kind == TokenizerKind::bpe ? "gpt2" : "llama"; }

std::vector<int32_t> type_ids(const TrainedVocab& vocab) {
  std::vector<int32_t> ids;
  for (const text::TokenType type : vocab.types) ids.push_back(static_cast<int32_t>(type));
  return ids;
}

/// Returns the length of the longest control token at the begin of a text, or 0.
size_t control_prefix(std::string_view text, std::span<const std::string> control_tokens) {
  size_t n_longest = 0;
  for (const std::string& token : control_tokens)
    if (token.size() > n_longest && text.starts_with(token)) n_longest = token.size();
  return n_longest;
}

/// Visits the parts of a piece between its control tokens. Returns the number of control tokens.
uint64_t visit_parts(const TextPiece& piece, std::span<const std::string> control_tokens, WordCounts& words,
                     PieceVisitor visit) {
  const auto may_begin = [&](char c) {
    return std::ranges::any_of(control_tokens, [c](const std::string& token) { return token.front() == c; });
  };
  uint64_t n_controls = 0;
  TextPiece part = piece;
  size_t begin = 0;
  const auto end_part = [&](size_t end) {
    part.text = piece.text.substr(begin, end - begin);
    if (!part.text.empty()) visit(part, words);
  };
  for (size_t at = 0; at < piece.text.size();) {
    const size_t n = may_begin(piece.text[at]) ? control_prefix(piece.text.substr(at), control_tokens) : 0;
    if (n > 0) {
      end_part(at);
      part.begins_document = true;
      begin = at + n;
      ++n_controls;
    }
    at += std::max<size_t>(n, 1);
  }
  end_part(piece.text.size());
  return n_controls;
}

Result<> check_control_tokens(std::span<const std::string> control_tokens) {
  for (const std::string& token : control_tokens) {
    if (token.empty()) return fail(ErrorCode::invalid_argument, "control token: empty");
    if (token.size() > text::kMaxSpecialBytes)
      return fail(ErrorCode::invalid_argument, "control token {}: {} bytes, limit {}", text::quote_text(token),
                  token.size(), text::kMaxSpecialBytes);
  }
  return {};
}

std::unexpected<Error> interrupted() { return fail(ErrorCode::cancelled, "training of the tokenizer: interrupted"); }

}  // namespace

std::vector<std::pair<std::string_view, uint64_t>> WordCounts::sorted() const {
  std::vector<std::pair<std::string_view, uint64_t>> words(counts_.begin(), counts_.end());
  std::sort(words.begin(), words.end());
  return words;
}

Result<CountedText> count_words(TextSource next, std::span<const std::string> control_tokens, PieceVisitor visit,
                                const CancelToken* cancel) {
  CountedText text;
  while (true) {
    if (cancel != nullptr && cancel->cancelled()) return interrupted();
    TESSERA_ASSIGN(const std::optional<TextPiece> piece, next());
    if (!piece) break;
    text.n_bytes += piece->text.size();
    text.n_controls += visit_parts(*piece, control_tokens, text.words, visit);
    if (text.words.size() > kMaxWords)
      return fail(ErrorCode::limit, "text to train a tokenizer on: more than {} different words", kMaxWords);
  }
  if (text.n_bytes == 0) return fail(ErrorCode::format, "text to train a tokenizer on: empty");
  return text;
}

Result<> append_control_tokens(TrainedVocab& vocab, std::span<const std::string> control_tokens) {
  std::unordered_set<std::string> known(vocab.tokens.begin(), vocab.tokens.end());
  for (const std::string& token : control_tokens) {
    if (!known.insert(token).second)
      return fail(ErrorCode::invalid_argument, "control token {}: the vocabulary already has a token of this text",
                  text::quote_text(token));
    vocab.tokens.push_back(token);
    vocab.types.push_back(text::TokenType::control);
    if (vocab.kind == TokenizerKind::spm) vocab.scores.push_back(0);
  }
  return {};
}

Result<> merge_up_to(size_t n_symbols, MergeTrainer& trainer, MergeVisitor visit, const CancelToken* cancel) {
  while (trainer.n_symbols() < n_symbols) {
    if (cancel != nullptr && cancel->cancelled()) return interrupted();
    const auto merge = trainer.merge();
    if (!merge) break;
    visit(*merge);
  }
  return {};
}

Result<TrainedVocab> train_tokenizer(TextSource next, const TokenizerTraining& options, const CancelToken* cancel) {
  const bool is_bpe = options.kind == TokenizerKind::bpe;
  TESSERA_TRY(check_control_tokens(options.control_tokens));
  const size_t n_controls = options.control_tokens.size(), n_min = min_vocab(options.kind) + n_controls;
  if (options.n_vocab < n_min || options.n_vocab > kMaxTrainedVocab)
    return fail(ErrorCode::invalid_argument, "vocabulary of {} tokens: want {} ({}{}) to {}", options.n_vocab, n_min,
                is_bpe ? "256 bytes, BOS and EOS" : "256 bytes, unknown, BOS, EOS and the sign for spaces",
                n_controls > 0 ? fmt::format(", {} control tokens", n_controls) : "", kMaxTrainedVocab);
  return is_bpe ? train_bpe(next, options, cancel) : train_spm(next, options, cancel);
}

Result<TrainedVocab> train_tokenizer(std::span<const std::string_view> texts, const TokenizerTraining& options,
                                     const CancelToken* cancel) {
  size_t i = 0;
  const auto next = [&]() -> Result<std::optional<TextPiece>> {
    if (i == texts.size()) return std::nullopt;
    return TextPiece{texts[i++]};
  };
  return train_tokenizer(next, options, cancel);
}

text::VocabData vocab_data(const TrainedVocab& vocab) {
  using enum text::SpecialToken;
  text::VocabData data;
  data.model = model_of(vocab.kind);
  data.pre = vocab.pre;
  data.tokens.assign(vocab.tokens.begin(), vocab.tokens.end());
  if (!vocab.scores.empty()) data.scores = vocab.scores;
  data.types = type_ids(vocab);
  data.merges.assign(vocab.merges.begin(), vocab.merges.end());
  data.special_ids[to_size(bos)] = vocab.bos;
  data.special_ids[to_size(eos)] = vocab.eos;
  data.special_ids[to_size(unknown)] = vocab.unknown.value_or(-1);
  data.add_bos = true;
  data.add_eos = false;
  data.add_space_prefix = vocab.add_space_prefix;
  return data;
}

void write_vocab(GgufBuilder& builder, const TrainedVocab& vocab) {
  const auto id = [](int32_t token) { return static_cast<uint32_t>(token); };
  builder.set(keys::kTokenizerModel, model_of(vocab.kind));
  builder.set(keys::kTokenizerPre, vocab.pre);
  builder.set_array(keys::kTokens, vocab.tokens);
  if (vocab.kind == TokenizerKind::spm) builder.set_array(keys::kScores, vocab.scores);
  builder.set_array(keys::kTokenTypes, type_ids(vocab));
  if (vocab.kind == TokenizerKind::bpe) builder.set_array(keys::kMerges, vocab.merges);  // required even if empty
  builder.set(keys::kBosId, id(vocab.bos));
  builder.set(keys::kEosId, id(vocab.eos));
  if (vocab.unknown) builder.set(keys::kUnknownId, id(*vocab.unknown));
  builder.set(keys::kAddBos, true);
  builder.set(keys::kAddEos, false);
  builder.set(keys::kAddSpacePrefix, vocab.add_space_prefix);
}

}  // namespace tessera::train
