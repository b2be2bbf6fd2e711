// SentencePiece's BPE (Kudo and Richardson 2018) with the rules of Llama's vocabulary. Spaces are U+2581 and begin
// words, digits are separate words, letters are not joined with punctuation, rare code points are spelled in bytes.
// Whether a word ends between two code points depends only on these two, so no token contains such a boundary. The
// tokenizer does not split text into words, but for this reason never merges across a boundary either.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/text/space_sign.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"
#include "tessera/train/tokenizer_trainer_words.h"

namespace tessera::train {
namespace {

using text::kSpaceSign;
using text::TokenType;

enum class Kind { space, white, digit, letter, other, invalid };

Kind kind_of(uint32_t code_point) {
  using enum text::Category;
  constexpr uint32_t kLetters = text::bit_of(ll) | text::bit_of(lm) | text::bit_of(lo) | text::bit_of(lt) |
                                text::bit_of(lu) | text::bit_of(mc) | text::bit_of(me) | text::bit_of(mn);
  constexpr uint32_t kSpaceSignCodePoint = 0x2581;
  if (code_point == ' ' || code_point == kSpaceSignCodePoint) return Kind::space;
  const uint32_t category = text::bit_of(text::category_of(code_point));
  if ((category & kLetters) != 0) return Kind::letter;
  if (category == text::bit_of(nd)) return Kind::digit;
  return text::is_white_space(code_point) ? Kind::white : Kind::other;
}

bool ends_word(Kind left, Kind right) {
  if (left == Kind::digit || right == Kind::digit) return true;
  if (right == Kind::space) return left != Kind::space;
  if (left == Kind::space) return right == Kind::white;
  return left != right;
}

/// Counts the words of a piece. Returns the number of bytes that are not UTF-8, which belong to no word.
uint64_t add_words(const TextPiece& piece, bool has_prefix, WordCounts& counts) {
  uint64_t n_invalid_bytes = 0;
  std::string word;
  size_t n_symbols = 0;
  Kind last = Kind::invalid;
  const auto end_word = [&] {
    if (n_symbols > 0) counts.add(word);
    word.clear();
    n_symbols = 0;
  };
  const auto add = [&](std::string_view symbol, Kind kind) {
    if (ends_word(last, kind) || n_symbols == kMaxWordSymbols) end_word();
    word += symbol;
    ++n_symbols;
    last = kind;
  };
  if (has_prefix) add(kSpaceSign, Kind::space);
  for (std::string_view rest = piece.text; !rest.empty();) {
    const text::Utf8Step step = text::next_utf8(rest);
    if (step.state == text::Utf8State::valid) {
      const Kind kind = kind_of(text::next_code_point(rest).code_point);
      add(kind == Kind::space ? kSpaceSign : rest.substr(0, step.n_bytes), kind);
    } else {
      end_word();
      last = Kind::invalid;
      n_invalid_bytes += step.n_bytes;
    }
    rest.remove_prefix(step.n_bytes);
  }
  end_word();
  return n_invalid_bytes;
}

using CountedTexts = std::vector<std::pair<std::string_view, uint64_t>>;

/// Returns at most n_most code points that get a token: the space symbol, then the others by frequency.
std::vector<std::string> choose_code_points(const CountedTexts& words, double coverage, size_t n_most) {
  TextMap<uint64_t> counts;
  uint64_t n_all = 0;
  for (const auto& [word, n] : words)
    for (std::string_view rest = word; !rest.empty(); n_all += n) {
      const std::string_view symbol = rest.substr(0, text::next_utf8(rest).n_bytes);
      const auto found = counts.find(symbol);
      (found != counts.end() ? found->second : counts[std::string(symbol)]) += n;
      rest.remove_prefix(symbol.size());
    }
  std::vector<std::pair<uint64_t, std::string>> order;
  uint64_t n_covered = 0;
  for (const auto& [symbol, n] : counts) {
    if (symbol == kSpaceSign) {
      n_covered = n;
    } else {
      order.emplace_back(n, symbol);
    }
  }
  std::ranges::sort(
      order, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<std::string> chosen{std::string(kSpaceSign)};
  for (const auto& [n, symbol] : order) {
    if (chosen.size() == n_most || static_cast<double>(n_covered) >= coverage * static_cast<double>(n_all)) break;
    chosen.push_back(symbol);
    n_covered += n;
  }
  return chosen;
}

/// Adds the words to the trainer, cut at code points without a token. Returns the number of bytes of these code points.
uint64_t give_words(const CountedTexts& words, const std::vector<std::string>& symbols, MergeTrainer& trainer) {
  TextMap<uint32_t> ids;
  for (const std::string& symbol : symbols) ids.emplace(symbol, static_cast<uint32_t>(ids.size()));
  uint64_t n_fallback_bytes = 0;
  std::vector<uint32_t> run;
  for (const auto& [word, n] : words) {
    run.clear();
    for (std::string_view rest = word; !rest.empty();) {
      const std::string_view symbol = rest.substr(0, text::next_utf8(rest).n_bytes);
      rest.remove_prefix(symbol.size());
      if (const auto id = ids.find(symbol); id != ids.end()) {
        run.push_back(id->second);
        continue;
      }
      n_fallback_bytes += n * symbol.size();
      trainer.add_word(run, n);
      run.clear();
    }
    trainer.add_word(run, n);
  }
  return n_fallback_bytes;
}

void add_spm_token(TrainedVocab& vocab, std::string text, TokenType type, float score = 0) {
  vocab.tokens.push_back(std::move(text));
  vocab.types.push_back(type);
  vocab.scores.push_back(score);
}

}  // namespace

Result<TrainedVocab> train_spm(TextSource next, const TokenizerTraining& options, const CancelToken* cancel) {
  if (!(options.character_coverage > 0 && options.character_coverage <= 1))
    return fail(ErrorCode::invalid_argument, "character coverage: {}, want more than 0 and at most 1",
                options.character_coverage);
  uint64_t n_bytes_in_bytes = 0;
  const auto visit = [&](const TextPiece& piece, WordCounts& counts) {
    n_bytes_in_bytes += add_words(piece, options.add_space_prefix && piece.begins_document, counts);
  };
  TESSERA_ASSIGN(const CountedText text, count_words(next, options.control_tokens, visit, cancel));
  const CountedTexts words = text.words.sorted();

  constexpr size_t kNFixed = min_vocab(TokenizerKind::spm) - 1;
  const size_t n_most = options.n_vocab - kNFixed - options.control_tokens.size();
  const std::vector<std::string> code_points = choose_code_points(words, options.character_coverage, n_most);
  MergeTrainer trainer(code_points, options.control_tokens);
  n_bytes_in_bytes += give_words(words, code_points, trainer);

  TrainedVocab vocab;
  vocab.kind = TokenizerKind::spm;
  vocab.pre = "default";
  vocab.add_space_prefix = options.add_space_prefix;
  add_spm_token(vocab, "<unk>", TokenType::unknown);
  add_spm_token(vocab, "<s>", TokenType::control);
  add_spm_token(vocab, "</s>", TokenType::control);
  vocab.unknown = 0;
  vocab.bos = 1;
  vocab.eos = 2;
  for (int byte = 0; byte < 256; ++byte) add_spm_token(vocab, fmt::format("<0x{:02X}>", byte), TokenType::byte);
  const auto score_of_next = [&] { return 0.0f - static_cast<float>(vocab.tokens.size() - kNFixed); };
  const auto add_merge = [&](const MergeTrainer::Merge& merge) {
    add_spm_token(vocab, trainer.text(merge.joined), TokenType::normal, score_of_next());
  };
  TESSERA_TRY(merge_up_to(n_most, trainer, add_merge, cancel));
  for (const std::string& symbol : code_points) add_spm_token(vocab, symbol, TokenType::normal, score_of_next());
  vocab.n_text_bytes = text.n_bytes;
  vocab.n_text_tokens = trainer.n_occurrences() + n_bytes_in_bytes + text.n_controls;
  TESSERA_TRY(append_control_tokens(vocab, options.control_tokens));
  return vocab;
}

}  // namespace tessera::train
