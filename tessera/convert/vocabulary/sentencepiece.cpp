#include "tessera/convert/vocabulary/sentencepiece.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/protobuf.h"
#include "tessera/convert/vocabulary/ranked_tokens.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3;                    // fields of the model
constexpr uint32_t kPieceText = 1, kPieceScore = 2, kPieceKind = 3;               // of a piece
constexpr uint32_t kModelType = 3, kUnk = 40, kBos = 41, kEos = 42, kPad = 43;    // of the trainer
constexpr uint32_t kCharsmap = 2, kDummyPrefix = 3, kRemoveExtraWhitespaces = 4;  // of the normalizer

/// Calls read(field) for all fields of a message.
template <class Read>
Result<> read_message(std::string_view message, const Read& read) {
  ProtobufReader reader(message);
  while (true) {
    TESSERA_ASSIGN(const std::optional<ProtobufField> field, reader.next());
    if (!field) return {};
    TESSERA_TRY(read(*field));
  }
}

template <class T>
Result<> assign_to(T& target, Result<T> value) {
  TESSERA_ASSIGN(target, std::move(value));
  return {};
}

Result<SentencePieceModel::Piece> parse_piece(std::string_view message) {
  SentencePieceModel::Piece piece;
  int32_t kind = static_cast<int32_t>(piece.kind);
  TESSERA_TRY(read_message(message, [&](const ProtobufField& field) -> Result<> {
    if (field.number == kPieceText) return assign_to(piece.text, field.as_bytes());
    if (field.number == kPieceScore) return assign_to(piece.score, field.as_float());
    if (field.number == kPieceKind) return assign_to(kind, field.as_int32());
    return {};
  }));
  if (piece.text.empty() || !text::is_valid_utf8(piece.text))
    return fail(ErrorCode::format, "text {}, want UTF-8", text::quote_text(piece.text));
  if (!std::isfinite(piece.score)) return fail(ErrorCode::format, "a score of {}", piece.score);
  if (kind < 1 || kind > static_cast<int32_t>(SentencePieceModel::Kind::byte))
    return fail(ErrorCode::format, "kind {}, want 1 to 6", kind);
  piece.kind = static_cast<SentencePieceModel::Kind>(kind);
  return piece;
}

Result<> parse_trainer(std::string_view message, SentencePieceModel& model) {
  auto algorithm = static_cast<int32_t>(model.algorithm);
  TESSERA_TRY(read_message(message, [&](const ProtobufField& field) -> Result<> {
    if (field.number == kModelType) return assign_to(algorithm, field.as_int32());
    if (field.number == kUnk) return assign_to(model.unk_id, field.as_int32());
    if (field.number == kBos) return assign_to(model.bos_id, field.as_int32());
    if (field.number == kEos) return assign_to(model.eos_id, field.as_int32());
    if (field.number == kPad) return assign_to(model.pad_id, field.as_int32());
    return {};
  }));
  if (algorithm < 1 || algorithm > static_cast<int32_t>(SentencePieceModel::Algorithm::characters))
    return fail(ErrorCode::format, "model type {}, want 1 to 4", algorithm);
  model.algorithm = static_cast<SentencePieceModel::Algorithm>(algorithm);
  return {};
}

Result<> parse_normalizer(std::string_view message, SentencePieceModel& model) {
  return read_message(message, [&](const ProtobufField& field) -> Result<> {
    if (field.number == kCharsmap) return assign_to(model.charsmap, field.as_bytes());
    if (field.number == kDummyPrefix) return assign_to(model.add_dummy_prefix, field.as_bool());
    if (field.number == kRemoveExtraWhitespaces) return assign_to(model.remove_extra_whitespaces, field.as_bool());
    return {};
  });
}

text::TokenType type_of_piece(SentencePieceModel::Kind kind) {
  switch (kind) {
    case SentencePieceModel::Kind::unknown:
      return text::TokenType::unknown;
    case SentencePieceModel::Kind::control:
      return text::TokenType::control;
    case SentencePieceModel::Kind::unused:
      return text::TokenType::unused;
    case SentencePieceModel::Kind::byte:
      return text::TokenType::byte;
    default:  // user-defined pieces are normal tokens of the reference
      return text::TokenType::normal;
  }
}

VocabularyToken to_token(const SentencePieceModel::Piece& piece) {
  return {std::string(piece.text), piece.score, type_of_piece(piece.kind)};
}

Result<> add_pieces(const SentencePieceModel& model, TokenTable& tokens) {
  for (size_t i = 0; i < model.pieces.size(); ++i)
    TESSERA_TRY(tokens.add(static_cast<int64_t>(i), to_token(model.pieces[i])));
  return {};
}

/// XLM-RoBERTa has four special tokens in place of the first three pieces, and a mask behind the last piece.
Result<> add_xlm_roberta_pieces(const SentencePieceModel& model, VocabularyDraft& draft) {
  constexpr size_t kReplaced = 3;
  const std::array<VocabularyToken, 4> first{{{"<s>", 0, text::TokenType::control},
                                              {"<pad>", 0, text::TokenType::control},
                                              {"</s>", 0, text::TokenType::control},
                                              {"<unk>", 0, text::TokenType::unknown}}};
  int64_t id = 0;
  for (const VocabularyToken& token : first) TESSERA_TRY(draft.tokens.add(id++, token));
  for (size_t i = kReplaced; i < model.pieces.size(); ++i)
    TESSERA_TRY(draft.tokens.add(id++, to_token(model.pieces[i])));
  TESSERA_TRY(draft.tokens.add(id, {"<mask>", 0, text::TokenType::control}));
  draft.bos_id = 0;
  draft.pad_id = 1;
  draft.eos_id = 2;
  draft.unk_id = 3;
  draft.adds_bos = draft.adds_eos = true;
  return {};
}

Result<> add_unigram(const SentencePieceModel& model, const TokenizerFolder& folder, VocabularyDraft& draft) {
  Vocabulary& vocabulary = draft.vocabulary;
  vocabulary.model = "t5";
  vocabulary.add_space_prefix = model.add_dummy_prefix;
  vocabulary.remove_extra_whitespaces = model.remove_extra_whitespaces;
  vocabulary.charsmap.assign(model.charsmap.begin(), model.charsmap.end());
  if (is_xlm_roberta(folder.config().class_name())) return add_xlm_roberta_pieces(model, draft);
  draft.adds_eos = true;
  return add_pieces(model, draft.tokens);
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  TESSERA_TRY(read_message(bytes, [&](const ProtobufField& field) -> Result<> {
    if (field.number != kPieces && field.number != kTrainer && field.number != kNormalizer) return {};
    TESSERA_ASSIGN(const std::string_view message, field.as_bytes());
    if (field.number == kTrainer) return parse_trainer(message, model);
    if (field.number == kNormalizer) return parse_normalizer(message, model);
    if (model.pieces.size() == kMaxVocabularyTokens)
      return fail(ErrorCode::limit, "more than {} pieces", kMaxVocabularyTokens);
    auto piece = parse_piece(message);
    if (!piece) return forward_error(piece, fmt::format("piece {}", model.pieces.size()));
    model.pieces.push_back(*piece);
    return {};
  }));
  if (model.pieces.empty()) return fail(ErrorCode::format, "no pieces: not a model of SentencePiece");
  return model;
}

Result<VocabularyDraft> sentencepiece_draft(const SentencePieceModel& model, const TokenizerFolder& folder) {
  VocabularyDraft draft;
  draft.has_scores = true;
  draft.padding_score = kPaddingScore;
  draft.vocabulary.pre = "default";
  draft.bos_id = model.bos_id;
  draft.eos_id = model.eos_id;
  draft.unk_id = model.unk_id;
  draft.pad_id = model.pad_id;
  if (model.algorithm == SentencePieceModel::Algorithm::unigram) {
    TESSERA_TRY(add_unigram(model, folder, draft));
    return draft;
  }
  if (model.algorithm != SentencePieceModel::Algorithm::bpe)
    return fail(ErrorCode::unsupported, "model type {}, want unigram (1) or BPE (2)",
                static_cast<unsigned>(model.algorithm));
  draft.vocabulary.model = "llama";
  draft.vocabulary.add_space_prefix = folder.flag_setting("add_prefix_space").value_or(model.add_dummy_prefix);
  draft.adds_bos = true;
  TESSERA_TRY(add_pieces(model, draft.tokens));
  return draft;
}

Result<std::optional<VocabularyDraft>> read_sentencepiece(const TokenizerFolder& folder) {
  const auto name = folder.first_of({"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"});
  if (!name) return std::nullopt;
  TESSERA_ASSIGN(const std::string bytes, folder.read_text(*name));
  if (is_ranked_text(bytes)) return std::nullopt;  // tiktoken writes files of the same name
  const auto read = [&]() -> Result<VocabularyDraft> {
    TESSERA_ASSIGN(const SentencePieceModel model, parse_sentencepiece(bytes));
    return sentencepiece_draft(model, folder);
  };
  auto draft = read();
  if (!draft) return forward_error(draft, folder.path_of(*name));
  draft->file = folder.path_of(*name);
  TESSERA_TRY(put_added_tokens(folder, draft->tokens));
  return std::optional(std::move(*draft));
}

}  // namespace tessera::convert
