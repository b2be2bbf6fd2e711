// The count of a queued pair can only shrink. Only pairs with a new symbol grow, and these are pushed after each merge.
// So if the count of the first entry equals the pair's current count, that pair is the most frequent one. An entry with
// an outdated count is pushed again with the current count. No step depends on the order of a hash table.
#include "tessera/train/tokenizer_trainer_merges.h"

#include <algorithm>
#include <utility>

namespace tessera::train {
namespace {

constexpr int64_t kMinOccurrences = 2;  // a pair that occurs once saves nothing

uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

void MergeTrainer::add_word(std::span<const uint32_t> symbols, uint64_t n) {
  const auto word = static_cast<uint32_t>(words_.size());
  words_.push_back({symbols_.size(), symbols.size(), static_cast<int64_t>(n)});
  symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
  for (size_t i = 1; i < symbols.size(); ++i) add(symbols[i - 1], symbols[i], word);
}

std::optional<MergeTrainer::Merge> MergeTrainer::merge() {
  push_touched();
  while (const auto best = pop()) {
    Pair& pair = pairs_[*best];
    const Merge merge{pair.left, pair.right, static_cast<uint32_t>(texts_.size())};
    const std::vector<uint32_t> words = std::exchange(pair.words, {});
    pair.n = 0;
    std::string text = texts_[merge.left] + texts_[merge.right];
    if (std::ranges::find(reserved_, text) != reserved_.end()) continue;
    texts_.push_back(std::move(text));
    for (const uint32_t word : words) merge_in(word, merge);
    return merge;
  }
  return std::nullopt;
}

uint64_t MergeTrainer::n_occurrences() const {
  uint64_t n = 0;
  for (const Word& word : words_) n += word.n_symbols * static_cast<uint64_t>(word.n);
  return n;
}

void MergeTrainer::add(uint32_t left, uint32_t right, uint32_t word) {
  const auto next = static_cast<uint32_t>(pairs_.size());
  const auto [entry, is_new] = pairs_by_symbols_.try_emplace(key_of(left, right), next);
  if (is_new) pairs_.push_back({.left = left, .right = right, .words = {}});
  Pair& pair = pairs_[entry->second];
  pair.n += words_[word].n;
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  touch(entry->second);
}

void MergeTrainer::remove(uint32_t left, uint32_t right, uint32_t word) {
  pairs_[pairs_by_symbols_.find(key_of(left, right))->second].n -= words_[word].n;
}

bool MergeTrainer::is_less(const Waiting& a, const Waiting& b) {
  if (a.n != b.n) return a.n < b.n;
  return key_of(a.left, a.right) > key_of(b.left, b.right);
}

void MergeTrainer::touch(uint32_t pair) {
  if (!std::exchange(pairs_[pair].is_touched, true)) touched_.push_back(pair);
}

void MergeTrainer::push_touched() {
  for (const uint32_t i : touched_) {
    Pair& pair = pairs_[i];
    pair.is_touched = false;
    if (pair.n < kMinOccurrences || pair.n <= pair.n_queued) continue;
    pair.n_queued = pair.n;
    queue_.push_back({pair.n, pair.left, pair.right, i});
    std::push_heap(queue_.begin(), queue_.end(), is_less);
  }
  touched_.clear();
}

std::optional<uint32_t> MergeTrainer::pop() {
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), is_less);
    const Waiting entry = queue_.back();
    queue_.pop_back();
    Pair& pair = pairs_[entry.pair];
    if (entry.n == pair.n) return entry.pair;
    if (entry.n != pair.n_queued) continue;  // a newer entry exists
    pair.n_queued = 0;
    touch(entry.pair);
    push_touched();
  }
  return std::nullopt;
}

void MergeTrainer::merge_in(uint32_t word, const Merge& merge) {
  const size_t n = words_[word].n_symbols;
  uint32_t* symbols = &symbols_[words_[word].begin];
  size_t n_done = 0;
  size_t at = 0;
  while (at < n) {
    if (at + 1 == n || symbols[at] != merge.left || symbols[at + 1] != merge.right) {
      symbols[n_done++] = symbols[at++];
      continue;
    }
    if (n_done > 0) {
      remove(symbols[n_done - 1], merge.left, word);
      add(symbols[n_done - 1], merge.joined, word);
    }
    if (at + 2 < n) {
      remove(merge.right, symbols[at + 2], word);
      add(merge.joined, symbols[at + 2], word);
    }
    symbols[n_done++] = merge.joined;
    at += 2;
  }
  words_[word].n_symbols = n_done;
}

}  // namespace tessera::train
