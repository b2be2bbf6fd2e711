// Learns the merges of byte-pair encoding from words and their counts (Gage 1994; Sennrich et al. 2016). Each merge
// turns the most frequent pair of adjacent symbols into a symbol. Each pair stores the words in which it occurred, so
// a merge visits only those words. Used by train_bpe() and train_spm().
//
// No two merges spell the same text. The symbols between two remaining symbol boundaries depend only on the text
// between them. Wherever a text occurs as two symbols, these are therefore the same two symbols. Hence one algorithm
// learns both the merges of BPE, which name a pair, and the pieces of SPM, which name a text. A merge is never undone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::train {

class MergeTrainer {
 public:
  /// symbols: the distinct texts that words consist of. reserved: texts that no merge may spell.
  MergeTrainer(std::vector<std::string> symbols, std::vector<std::string> reserved)
      : texts_(std::move(symbols)), reserved_(std::move(reserved)) {}

  /// Adds a word that occurs n times. Call before the first merge.
  void add_word(std::span<const uint32_t> symbols, uint64_t n);

  struct Merge {
    uint32_t left, right;
    uint32_t joined;  // the new symbol
  };
  /// Merges all occurrences of the most frequent pair, in each word from left to right. Ties go to the pair with the
  /// lower left symbol, then the lower right symbol. Returns nothing if no pair occurs twice.
  std::optional<Merge> merge();

  size_t n_symbols() const { return texts_.size(); }
  const std::string& text(uint32_t symbol) const { return texts_[symbol]; }

  /// Returns the number of symbols in all words, each word counted as often as it occurs.
  uint64_t n_occurrences() const;

 private:
  struct Word {
    size_t begin;  // in symbols_
    size_t n_symbols;
    int64_t n;
  };
  struct Pair {
    int64_t n = 0;         // occurrences; not counted for merged or reserved pairs
    int64_t n_queued = 0;  // the count of its entry in queue_; 0: no entry
    uint32_t left, right;
    bool is_touched = false;      // in touched_
    std::vector<uint32_t> words;  // superset of the words that contain it; may have duplicates
  };
  struct Waiting {
    int64_t n;
    uint32_t left, right;
    uint32_t pair;
  };
  static bool is_less(const Waiting& a, const Waiting& b);

  void add(uint32_t left, uint32_t right, uint32_t word);
  void remove(uint32_t left, uint32_t right, uint32_t word);
  void touch(uint32_t pair);
  void push_touched();
  std::optional<uint32_t> pop();
  void merge_in(uint32_t word, const Merge& merge);

  std::vector<std::string> texts_;
  std::vector<std::string> reserved_;
  std::vector<uint32_t> symbols_;  // of all words; entries freed by a merge stay unused
  std::vector<Word> words_;
  std::vector<Pair> pairs_;
  std::unordered_map<uint64_t, uint32_t> pairs_by_symbols_;
  std::vector<uint32_t> touched_;  // pairs whose count may have grown
  std::vector<Waiting> queue_;     // a heap; every mergeable pair has an entry with at least its count
};

}  // namespace tessera::train
