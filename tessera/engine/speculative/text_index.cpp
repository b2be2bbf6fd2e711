#include "tessera/engine/speculative/text_index.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr size_t kLeastBuckets = 1024;

// The number of equal tokens at the ends.
int64_t common_end(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto n_most = std::min({std::ssize(a), std::ssize(b), TextIndex::kMostMatch});
  int64_t n = 0;
  while (n < n_most && a[a.size() - to_size(n) - 1] == b[b.size() - to_size(n) - 1]) ++n;
  return n;
}

}  // namespace

size_t TextIndex::bucket(std::span<const int32_t> key) const {
  uint64_t hash = 0;
  for (const int32_t token : key) hash = (hash + static_cast<uint32_t>(token) + 1) * 0x9e3779b97f4a7c15;
  return (hash >> 32) % chains_[0].last.size();
}

// Keys do not reach over the start of a text: no query has kEnd.
void TextIndex::add_place(size_t level, int64_t end) {
  Chains& chains = chains_[level];
  chains.previous.push_back(-1);
  const int64_t n = kKeyLengths[level];
  if (end < n) return;
  int32_t& last = chains.last[bucket(std::span(tokens_).subspan(to_size(end - n), to_size(n)))];
  chains.previous.back() = last;
  last = static_cast<int32_t>(end);
}

void TextIndex::grow_buckets() {
  const size_t n_buckets = std::max(kLeastBuckets, 2 * chains_[0].last.size());
  for (size_t level = 0; level < chains_.size(); ++level) {
    chains_[level].last.assign(n_buckets, -1);
    chains_[level].previous.clear();
    for (int64_t end = 1; end < std::ssize(tokens_); ++end) add_place(level, end);
  }
}

void TextIndex::append(int32_t token) {
  if (std::ssize(tokens_) >= n_most_) drop_older_half();
  tokens_.push_back(token);
  if (tokens_.size() > chains_[0].last.size()) grow_buckets();
  for (size_t level = 0; level < chains_.size(); ++level) add_place(level, std::ssize(tokens_));
}

void TextIndex::end_text() {
  if (!tokens_.empty() && tokens_.back() != kEnd) append(kEnd);
}

void TextIndex::clear() {
  tokens_.clear();
  chains_ = {};
}

void TextIndex::drop_older_half() {
  const std::vector<int32_t> kept(tokens_.begin() + std::ssize(tokens_) / 2, tokens_.end());
  clear();
  append(kept);
}

void TextIndex::find(std::span<const int32_t> query, std::vector<Match>& matches) const {
  if (tokens_.empty()) return;
  for (size_t level = 0; level < chains_.size(); ++level) {
    const int64_t n = kKeyLengths[level];
    if (std::ssize(query) < n) continue;
    int32_t end = chains_[level].last[bucket(query.last(to_size(n)))];
    for (int visited = 0; end >= 0 && visited < kMostVisited; ++visited) {
      const bool is_followed = end < std::ssize(tokens_) && tokens_[to_size(end)] != kEnd;
      const int64_t length = is_followed ? common_end(std::span(tokens_).first(to_size(end)), query) : 0;
      if (length >= kLeastMatch) matches.push_back({.end = end, .length = length});
      end = chains_[level].previous[to_size(end) - 1];
    }
  }
}

}  // namespace tessera
