// Vocabularies trained from text: byte-level BPE with the words of a pre-tokenizer, and SentencePiece's kind of BPE
// with scores and byte tokens. What comes out are the keys of a GGUF file, which any reader of the format understands,
// and the same as our own VocabData. The result is a function of the multiset of the text's words: neither the order of
// the documents nor that of a hash table counts.
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
  // bpe: a name of pre_tokenizers.def whose tokens are spelled in signs for bytes.
  std::string pre = "llama-bpe";
  // spm: a space is put in front of each text, so that its first word is spelled as the others are.
  bool add_space_prefix = true;
  // spm: the share of the text's code points that get a token of their own, the frequent ones first; the others are
  // spelled in bytes. In (0, 1].
  double character_coverage = 0.9995;
};

inline constexpr size_t kMaxTrainedVocab = size_t{1} << 20;

/// The tokens that are there before any merge. bpe: the bytes, BOS and EOS; spm: unknown, BOS, EOS, the bytes and the
/// sign for spaces.
constexpr size_t min_vocab(TokenizerKind kind) { return kind == TokenizerKind::bpe ? 258 : 260; }

/// The ids are: bpe the bytes in the order of their signs, the merges in their order, BOS and EOS ("<|begin_of_text|>",
/// "<|end_of_text|>"); spm <unk>, <s>, </s>, the bytes, the merges in their order, the code points by frequency.
struct TrainedVocab {
  TokenizerKind kind = TokenizerKind::bpe;
  std::string pre;
  bool add_space_prefix = false;
  std::vector<std::string> tokens;  // fewer than n_vocab where no pair of symbols occurs twice any more
  std::vector<text::TokenType> types;
  std::vector<float> scores;        // spm: 0 for the fixed tokens, else minus the rank
  std::vector<std::string> merges;  // bpe
  int32_t bos = 0;
  int32_t eos = 0;
  std::optional<int32_t> unknown;
  uint64_t n_text_bytes = 0;   // that it was trained on
  uint64_t n_text_tokens = 0;  // their tokens, without BOS and EOS
};

/// Trains a vocabulary. Words are counted first, and each is kept once: 100 MB of source code and documents take 4
/// seconds and 120 MB of memory for 32 thousand tokens; random code points without a space, where no word is like
/// another, 16 seconds and 27 bytes of memory per byte of text for 30 MB. Words of more than 64 symbols are cut there.
/// Errors: invalid_argument (n_vocab, coverage; a pre-tokenizer that is unknown or spells no bytes); format (no text);
/// limit (2^31 different words); cancelled; those of the source.
Result<TrainedVocab> train_tokenizer(TextSource next, const TokenizerTraining& options,
                                     const CancelToken* cancel = nullptr);

/// The same of texts in memory, each a document.
Result<TrainedVocab> train_tokenizer(std::span<const std::string_view> texts, const TokenizerTraining& options,
                                     const CancelToken* cancel = nullptr);

/// The vocabulary as Vocab::create() takes it. Borrows the texts.
text::VocabData vocab_data(const TrainedVocab& vocab);

/// Sets the keys tokenizer.ggml.*.
void write_vocab(GgufBuilder& builder, const TrainedVocab& vocab);

}  // namespace tessera::train
