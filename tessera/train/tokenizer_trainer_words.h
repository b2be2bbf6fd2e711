// Shared by the trainers of both kinds of tokenizers: the words of a text with their counts, and the loop of merges.
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

/// Longer words are cut. A merge scans each word that contains it, and a text without spaces would be a single word.
inline constexpr size_t kMaxWordSymbols = 64;

/// A transparent hash, which allows looking up views in a map with std::string keys.
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

  /// Returns the words sorted by their bytes, independent of the hash table's order. The views are valid until the next
  /// add().
  std::vector<std::pair<std::string_view, uint64_t>> sorted() const;

 private:
  TextMap<uint64_t> counts_;
};

/// Reads a text to its end and calls visit for each part between two control tokens. A part at the begin of a document
/// or behind a control token has begins_document. Errors: format (empty text); limit; errors of the source.
struct CountedText {
  WordCounts words;
  uint64_t n_bytes = 0;
  uint64_t n_controls = 0;  // occurrences of control tokens
};
using PieceVisitor = FunctionRef<void(const TextPiece&, WordCounts&)>;
Result<CountedText> count_words(TextSource next, std::span<const std::string> control_tokens, PieceVisitor visit,
                                const CancelToken* cancel);

/// Appends the control tokens to the vocabulary. Errors: invalid_argument (the vocabulary has one already).
Result<> append_control_tokens(TrainedVocab& vocab, std::span<const std::string> control_tokens);

/// Merges until the trainer has n_symbols or no pair occurs twice. Calls visit for each merge. Errors: cancelled.
using MergeVisitor = FunctionRef<void(const MergeTrainer::Merge&)>;
Result<> merge_up_to(size_t n_symbols, MergeTrainer& trainer, MergeVisitor visit, const CancelToken* cancel);

Result<TrainedVocab> train_bpe(TextSource next, const TokenizerTraining& options, const CancelToken* cancel);
Result<TrainedVocab> train_spm(TextSource next, const TokenizerTraining& options, const CancelToken* cancel);

}  // namespace tessera::train
