// Byte-level BPE (Radford et al. 2019): the words of a pre-tokenizer, as bytes.
#include <algorithm>
#include <array>
#include <numeric>

#include "tessera/text/byte_signs.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"
#include "tessera/train/tokenizer_trainer_words.h"

namespace tessera::train {
namespace {

constexpr size_t kNBytes = 256;
constexpr std::string_view kBos = "<|begin_of_text|>";
constexpr std::string_view kEos = "<|end_of_text|>";

/// Returns the bytes in the order of the printable characters that GPT-2's vocabulary spells them with.
std::array<uint8_t, kNBytes> bytes_by_sign() {
  std::array<uint8_t, kNBytes> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::ranges::sort(bytes, {}, [](uint8_t byte) { return text::kByteSigns.sign[byte]; });
  return bytes;
}

std::string in_signs(std::string_view bytes) {
  std::string signs;
  for (const char c : bytes) text::append_utf8(text::kByteSigns.sign[static_cast<uint8_t>(c)], signs);
  return signs;
}

Result<text::PreTokenizer> make_pre_tokenizer(const std::string& name) {
  const text::PreRow* row = text::find_pre(name);
  if (row == nullptr)
    return fail(ErrorCode::invalid_argument, "pre-tokenizer {}: not known; \"llama-bpe\" and \"gpt-2\" are usual",
                text::quote_text(name));
  if ((row->flags & (text::kRawUtf8 | text::kEscapeSpaces | text::kDropSpaces)) != 0)
    return fail(ErrorCode::invalid_argument, "pre-tokenizer {}: its tokens are not spelled in bytes; want one as {}",
                text::quote_text(name), "\"llama-bpe\" or \"gpt-2\"");
  return text::PreTokenizer::create(row->family);
}

void add_bpe_token(TrainedVocab& vocab, std::string text, text::TokenType type) {
  vocab.tokens.push_back(std::move(text));
  vocab.types.push_back(type);
}

}  // namespace

Result<TrainedVocab> train_bpe(TextSource next, const TokenizerTraining& options, const CancelToken* cancel) {
  TESSERA_ASSIGN(const text::PreTokenizer pre, make_pre_tokenizer(options.pre));
  const auto add_words = [&](const TextPiece& piece, WordCounts& counts) {
    text::PreTokenizer::Words words(pre, piece.text);
    for (std::string_view word = words.next(); !word.empty(); word = words.next())
      for (size_t at = 0; at < word.size(); at += kMaxWordSymbols) counts.add(word.substr(at, kMaxWordSymbols));
  };
  TESSERA_ASSIGN(const CountedText text, count_words(next, options.control_tokens, add_words, cancel));

  std::vector<std::string> symbols;
  std::array<uint32_t, kNBytes> symbol_of_byte;
  for (const uint8_t byte : bytes_by_sign()) {
    symbol_of_byte[byte] = static_cast<uint32_t>(symbols.size());
    symbols.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<std::string> reserved{std::string(kBos), std::string(kEos)};
  reserved.insert(reserved.end(), options.control_tokens.begin(), options.control_tokens.end());
  MergeTrainer trainer(std::move(symbols), std::move(reserved));
  std::vector<uint32_t> word_symbols;
  for (const auto& [word, n] : text.words.sorted()) {
    word_symbols.clear();
    for (const char c : word) word_symbols.push_back(symbol_of_byte[static_cast<uint8_t>(c)]);
    trainer.add_word(word_symbols, n);
  }

  TrainedVocab vocab;
  vocab.kind = TokenizerKind::bpe;
  vocab.pre = options.pre;
  const auto add_merge = [&](const MergeTrainer::Merge& merge) {
    vocab.merges.push_back(in_signs(trainer.text(merge.left)) + " " + in_signs(trainer.text(merge.right)));
  };
  const size_t n_special = min_vocab(TokenizerKind::bpe) - kNBytes + options.control_tokens.size();
  TESSERA_TRY(merge_up_to(options.n_vocab - n_special, trainer, add_merge, cancel));

  for (uint32_t i = 0; i < trainer.n_symbols(); ++i)
    add_bpe_token(vocab, in_signs(trainer.text(i)), text::TokenType::normal);
  vocab.bos = static_cast<int32_t>(vocab.tokens.size());
  vocab.eos = vocab.bos + 1;
  add_bpe_token(vocab, std::string(kBos), text::TokenType::control);
  add_bpe_token(vocab, std::string(kEos), text::TokenType::control);
  vocab.n_text_bytes = text.n_bytes;
  vocab.n_text_tokens = trainer.n_occurrences() + text.n_controls;
  TESSERA_TRY(append_control_tokens(vocab, options.control_tokens));
  return vocab;
}

}  // namespace tessera::train
