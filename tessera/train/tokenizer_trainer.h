// Trains vocabularies from text: byte-level BPE with the words of a pre-tokenizer, and SentencePiece's variant of BPE
// with scores and byte tokens. The result is available as standard GGUF metadata keys and as VocabData.
// The result depends only on the multiset of the text's words, not on the order of documents or of a hash table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"
#include "tessera/gguf/writer.h"
#include "tessera/text/vocab.h"
#include "tessera/train/text_reader.h"

namespace tessera::train {

enum class TokenizerKind {
  bpe,  // tokenizer.ggml.model "gpt2"
  spm,  // "llama"
};

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::bpe;
  size_t n_vocab = 0;  // all tokens: at least min_vocab(kind), at most kMaxTrainedVocab
  // bpe: a name from pre_tokenizers.def whose tokens are byte-level (bytes spelled as printable characters).
  std::string pre = "llama-bpe";
  // spm: put a space in front of each text, so that its first word has the same tokens as later occurrences.
  bool add_space_prefix = true;
  // spm: the share of the text's characters whose code points get a token of their own, most frequent first. Other
  // code points are spelled in bytes. In (0, 1].
  double character_coverage = 0.9995;
  // Texts that become tokens of type control. No merge crosses them. Each has 1 to kMaxSpecialBytes bytes.
  std::vector<std::string> control_tokens{};
};

inline constexpr size_t kMaxTrainedVocab = size_t{1} << 20;

/// The number of tokens before any merge. bpe: the bytes, BOS and EOS. spm: unknown, BOS, EOS, the bytes and the space
/// symbol.
constexpr size_t min_vocab(TokenizerKind kind) { return kind == TokenizerKind::bpe ? 258 : 260; }

/// A trained vocabulary. Order of the ids for bpe: the bytes in the order of their printable characters, the merges in
/// their order, BOS and EOS ("<|begin_of_text|>", "<|end_of_text|>"). For spm: <unk>, <s>, </s>, the bytes, the merges
/// in their order, the code points by frequency. The control tokens of the options follow in their order.
struct TrainedVocab {
  TokenizerKind kind = TokenizerKind::bpe;
  std::string pre;
  bool add_space_prefix = false;
  std::vector<std::string> tokens;  // fewer than n_vocab if no pair of symbols occurred twice any more
  std::vector<text::TokenType> types;
  std::vector<float> scores;        // spm: 0 for the fixed tokens, else the negated rank
  std::vector<std::string> merges;  // bpe
  int32_t bos = 0;
  int32_t eos = 0;
  std::optional<int32_t> unknown;
  uint64_t n_text_bytes = 0;   // size of the training text
  uint64_t n_text_tokens = 0;  // its number of tokens, without BOS and EOS
};

/// Trains a vocabulary. Words are counted first, and each is stored once. Words of more than 64 symbols are cut.
/// Measured: 100 MB of source code and documents need 4 seconds and 120 MB of memory for 32 thousand tokens. The worst
/// case, 30 MB of random code points without a space, needs 16 seconds and 27 bytes of memory per byte of text.
/// Errors: invalid_argument (n_vocab, coverage; a pre-tokenizer that is unknown or not byte-level; a control token that
/// is empty, too long or in the vocabulary twice); format (no text); limit (2^31 different words); cancelled; errors of
/// the source.
Result<TrainedVocab> train_tokenizer(TextSource next, const TokenizerTraining& options,
                                     const CancelToken* cancel = nullptr);

/// The same for texts in memory, each a document.
Result<TrainedVocab> train_tokenizer(std::span<const std::string_view> texts, const TokenizerTraining& options,
                                     const CancelToken* cancel = nullptr);

/// Returns the vocabulary as the argument of Vocab::create(). Borrows the texts.
text::VocabData vocab_data(const TrainedVocab& vocab);

/// Sets the keys tokenizer.ggml.*.
void write_vocab(GgufBuilder& builder, const TrainedVocab& vocab);

}  // namespace tessera::train
