// The merges of byte-pair encoding learned from words and their counts (Gage 1994; Sennrich et al. 2016): again and
// again the most frequent pair of adjacent symbols becomes a symbol. Each pair knows the words that it was seen in, so
// that a merge touches those alone.
//
// No two merges spell one text: what the merges so far make of a stretch between two boundaries that they have left
// depends on its text alone, so wherever a text stands as two symbols these are the same two. Hence the merges of BPE,
// which name a pair, and the pieces of SPM, which name a text, are learned in one way, and what is merged stays so.
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
  /// symbols: the texts that words are made of, all different. reserved: texts that no merge may spell.
  MergeTrainer(std::vector<std::string> symbols, std::vector<std::string> reserved)
      : texts_(std::move(symbols)), reserved_(std::move(reserved)) {}

  /// A word that occurs n times; before the first merge.
  void add_word(std::span<const uint32_t> symbols, uint64_t n);

  struct Merge {
    uint32_t left, right;
    uint32_t joined;  // the symbol that is new
  };
  /// The most frequent pair, of equals that of the lower left, then right symbol, is merged wherever it stands, in each
  /// word from left to right. Nothing when no pair occurs twice.
  std::optional<Merge> merge();

  size_t n_symbols() const { return texts_.size(); }
  const std::string& text(uint32_t symbol) const { return texts_[symbol]; }

  /// The symbols of all words, as often as these occur.
  uint64_t n_occurrences() const;

 private:
  struct Word {
    size_t begin;  // in symbols_
    size_t n_symbols;
    int64_t n;
  };
  struct Pair {
    int64_t n = 0;         // occurrences; of a pair that is merged or reserved none are counted any more
    int64_t n_queued = 0;  // the count of its entry in queue_; 0: it has none
    uint32_t left, right;
    bool is_touched = false;      // it is in touched_
    std::vector<uint32_t> words;  // it was seen in these, perhaps more than once, and some have lost it since
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
  std::vector<uint32_t> symbols_;  // of all words; what a merge frees stays unused
  std::vector<Word> words_;
  std::vector<Pair> pairs_;
  std::unordered_map<uint64_t, uint32_t> pairs_by_symbols_;
  std::vector<uint32_t> touched_;  // pairs whose count may have grown
  std::vector<Waiting> queue_;     // a heap; every pair that may be merged has an entry of at least its count
};

}  // namespace tessera::train
