// Merges adjacent symbols in order of rank (leftmost first among equal ranks) until no pair can be merged. This is the
// core of SPM and BPE. For n symbols it needs O(n log n) time, 24 n bytes, and 8 bytes per pending pair.
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
  uint32_t value;                 // the caller's name for the symbol
  uint32_t previous = kNoSymbol;  // its neighbours in the text
  uint32_t next = kNoSymbol;
  uint32_t joined = 0;      // value of this symbol merged with the next one, unless rank is kNoRank
  uint32_t rank = kNoRank;  // of that pair: a smaller rank is merged sooner
};

/// A candidate pair: its rank, and the value of the merged symbol. kNoRank: the pair must not be merged.
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

  /// Merges all pairs that can be merged. join(left, right, end) returns a Joined, where end is the position after the
  /// last byte of right (n_bytes for the last symbol).
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

  /// Calls visit(symbol, end) for the remaining symbols in order. If visit returns a failed Result, the iteration stops
  /// and returns it.
  template <class Visit>
  auto for_each(const Visit& visit) const -> decltype(visit(MergeSymbol{}, size_t{})) {
    for (uint32_t i = symbols_.empty() ? kNoSymbol : 0; i != kNoSymbol; i = symbols_[i].next)
      if (auto result = visit(symbols_[i], size_t{end_of(symbols_[i])}); !result) return result;
    return {};
  }

 private:
  static constexpr size_t kFewSymbols = 24;  // up to this length, a scan for the best pair is faster than a queue

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

  /// Merges the symbol with the next one, and proposes the two new pairs.
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

  // The queue is a heap of rank * 2^32 + symbol. An entry is stale if the rank of its symbol has changed since.
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
