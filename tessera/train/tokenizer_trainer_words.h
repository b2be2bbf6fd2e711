// What the two kinds of tokenizers share while they are trained: the words of a text and how often each occurs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/train/tokenizer_trainer.h"
#include "tessera/train/tokenizer_trainer_merges.h"

namespace tessera::train {

/// A longer word is cut: a merge takes time for each word that it occurs in, and a text without spaces is one word.
inline constexpr size_t kMaxWordSymbols = 64;

/// Lets a map with std::string keys be asked with views.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class WordCounts {
 public:
  void add(std::string_view word) {
    const auto found = counts_.find(word);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(word, 1);
    }
  }
  size_t size() const { return counts_.size(); }

  /// The words by their bytes, so that nothing depends on the table's order. Valid while nothing is added.
  std::vector<std::pair<std::string_view, uint64_t>> sorted() const;

 private:
  TextMap<uint64_t> counts_;
};

/// Reads a text to its end: visit gets each piece. Errors: format where there is nothing; limit; the source's.
struct CountedText {
  WordCounts words;
  uint64_t n_bytes = 0;
};
using PieceVisitor = FunctionRef<void(const TextPiece&, WordCounts&)>;
Result<CountedText> count_words(TextSource next, PieceVisitor visit, const CancelToken* cancel);

/// Merges until the trainer has n_symbols or no pair occurs twice. visit gets each merge. Error: cancelled.
using MergeVisitor = FunctionRef<void(const MergeTrainer::Merge&)>;
Result<> merge_up_to(size_t n_symbols, MergeTrainer& trainer, MergeVisitor visit, const CancelToken* cancel);

Result<TrainedVocab> train_bpe(TextSource next, const TokenizerTraining& options, const CancelToken* cancel);
Result<TrainedVocab> train_spm(TextSource next, const TokenizerTraining& options, const CancelToken* cancel);

}  // namespace tessera::train
