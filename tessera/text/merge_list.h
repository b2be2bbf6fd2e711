// Merging adjacent symbols best rank first, the leftmost of equals first, until no pair can be merged: the heart of
// SPM and BPE. n symbols take n log n time and 24 n bytes, and 8 bytes for each pair that waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::text {

inline constexpr uint32_t kNoSymbol = UINT32_MAX;
inline constexpr uint32_t kNoRank = UINT32_MAX;

struct MergeSymbol {
  uint32_t begin;                 // its first byte in the text
  uint32_t value;                 // what the caller knows it by
  uint32_t previous = kNoSymbol;  // its neighbours in the text
  uint32_t next = kNoSymbol;
  uint32_t joined = 0;      // the value of it and the next one together, unless rank is kNoRank
  uint32_t rank = kNoRank;  // of that pair: smaller is merged sooner
};

/// A pair that may be merged: its rank, and the value of the result. kNoRank: it may not.
struct Joined {
  uint32_t rank = kNoRank;
  uint32_t value = 0;
};

class MergeList {
 public:
  void clear() { symbols_.clear(); }
  void add(size_t begin, uint32_t value) {
    const auto i = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({static_cast<uint32_t>(begin), value, i == 0 ? kNoSymbol : i - 1});
    if (i > 0) symbols_[i - 1].next = i;
  }

  /// Merges all that can be. join(left, right, end) returns a Joined, where end is the first byte after right, or
  /// n_bytes for the last symbol.
  template <class Join>
  void merge(size_t n_bytes, const Join& join) {
    n_bytes_ = static_cast<uint32_t>(n_bytes);
    for (uint32_t i = 0; i < symbols_.size(); ++i) propose(i, join);
    if (symbols_.size() <= kFewSymbols) {
      merge_few(join);
    } else {
      merge_many(join);
    }
  }

  /// Calls visit(symbol, end) for what is left, in order; a failed Result from it ends the walk and is returned.
  template <class Visit>
  auto for_each(const Visit& visit) const -> decltype(visit(MergeSymbol{}, size_t{})) {
    for (uint32_t i = symbols_.empty() ? kNoSymbol : 0; i != kNoSymbol; i = symbols_[i].next)
      if (auto result = visit(symbols_[i], size_t{end_of(symbols_[i])}); !result) return result;
    return {};
  }

 private:
  static constexpr size_t kFewSymbols = 24;  // up to here a scan for the best pair beats a queue

  uint32_t end_of(const MergeSymbol& symbol) const {
    return symbol.next == kNoSymbol ? n_bytes_ : symbols_[symbol.next].begin;
  }

  template <class Join>
  void propose(uint32_t left, const Join& join) {
    MergeSymbol& symbol = symbols_[left];
    symbol.rank = kNoRank;
    if (symbol.next == kNoSymbol) return;
    const MergeSymbol& right = symbols_[symbol.next];
    const Joined joined = join(symbol, right, size_t{end_of(right)});
    symbol.rank = joined.rank;
    symbol.joined = joined.value;
  }

  /// The symbol and the next one become one; both its pairs are new.
  template <class Join>
  void merge_at(uint32_t left, const Join& join) {
    MergeSymbol& symbol = symbols_[left];
    MergeSymbol& right = symbols_[symbol.next];
    symbol.value = symbol.joined;
    symbol.next = right.next;
    right.rank = kNoRank;
    if (symbol.next != kNoSymbol) symbols_[symbol.next].previous = left;
    if (symbol.previous != kNoSymbol) propose(symbol.previous, join);
    propose(left, join);
  }

  template <class Join>
  void merge_few(const Join& join) {
    while (true) {
      uint32_t best = kNoSymbol;
      uint32_t best_rank = kNoRank;
      for (uint32_t i = 0; i != kNoSymbol && i < symbols_.size(); i = symbols_[i].next)
        if (symbols_[i].rank < best_rank) best = i, best_rank = symbols_[i].rank;
      if (best == kNoSymbol) return;
      merge_at(best, join);
    }
  }

  // The queue is a heap of rank * 2^32 + symbol. An entry is stale when its symbol has another rank by now.
  template <class Join>
  void merge_many(const Join& join) {
    queue_.clear();
    for (uint32_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i].rank != kNoRank) queue_.push_back(entry(i));
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      const auto left = static_cast<uint32_t>(queue_.back());
      const auto rank = static_cast<uint32_t>(queue_.back() >> 32);
      queue_.pop_back();
      if (symbols_[left].rank != rank) continue;
      merge_at(left, join);
      push(symbols_[left].previous);
      push(left);
    }
  }

  uint64_t entry(uint32_t i) const { return uint64_t{symbols_[i].rank} << 32 | i; }
  void push(uint32_t i) {
    if (i == kNoSymbol || symbols_[i].rank == kNoRank) return;
    queue_.push_back(entry(i));
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  std::vector<MergeSymbol> symbols_;
  std::vector<uint64_t> queue_;
  uint32_t n_bytes_ = 0;
};

}  // namespace tessera::text
