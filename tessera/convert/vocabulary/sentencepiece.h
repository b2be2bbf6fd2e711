// Models of SentencePiece: tokenizer.model, spiece.model, sentencepiece.bpe.model. The messages are those of its
// sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

struct SentencePieceModel {
  enum class Kind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string_view text{};
    float score = 0;
    Kind kind = Kind::normal;
  };
  enum class Algorithm : uint8_t { unigram = 1, bpe = 2, word = 3, characters = 4 };

  std::vector<Piece> pieces{};
  Algorithm algorithm = Algorithm::unigram;
  int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string_view charsmap{};
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

/// Reads a model. Texts are borrowed from the bytes. Errors: those of ProtobufReader; format (a text that is not UTF-8
/// or empty, a score that is not finite, an unknown kind); limit (more than kMaxVocabularyTokens pieces).
Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes);

/// The vocabulary of a model. Error: unsupported (neither BPE nor unigram).
Result<VocabularyDraft> sentencepiece_draft(const SentencePieceModel& model, const TokenizerFolder& folder);

/// Nothing if the folder has no model. Errors: those of parse_sentencepiece(), sentencepiece_draft() and
/// put_added_tokens().
Result<std::optional<VocabularyDraft>> read_sentencepiece(const TokenizerFolder& folder);

}  // namespace tessera::convert
