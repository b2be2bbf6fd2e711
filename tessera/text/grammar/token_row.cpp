#include "tessera/text/grammar/token_row.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <numeric>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

constexpr size_t kFew = 256;

bool has_bit(std::span<const uint64_t> words, int32_t id) {
  return ((words[to_size(id) / 64] >> (to_size(id) % 64)) & 1) != 0;
}

void set_bit(std::span<uint64_t> words, int32_t id) { words[to_size(id) / 64] |= uint64_t{1} << (to_size(id) % 64); }

void clear_bit(std::span<uint64_t> words, int32_t id) {
  words[to_size(id) / 64] &= ~(uint64_t{1} << (to_size(id) % 64));
}

std::vector<int32_t> sorted_ids(std::span<const int32_t> ids) {
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::unique(sorted);
  sorted.erase(repeated.begin(), repeated.end());
  return sorted;
}

void insert_ids(std::vector<int32_t>& ids, std::span<const int32_t> more) {
  if (more.empty()) return;
  std::vector<int32_t> all;
  std::ranges::set_union(ids, more, std::back_inserter(all));
  ids = std::move(all);
}

void erase_ids(std::vector<int32_t>& ids, std::span<const int32_t> others) {
  if (ids.empty() || others.empty()) return;
  std::vector<int32_t> rest;
  std::ranges::set_difference(ids, others, std::back_inserter(rest));
  ids = std::move(rest);
}

}  // namespace

void TokenRow::add(std::span<const int32_t> ids) {
  if (ids.size() > kFew) {
    Words& words = own_words();
    for (const int32_t id : ids) set_bit(words, id);
    return;
  }
  std::vector<int32_t> sorted = sorted_ids(ids);
  erase_ids(removed_, sorted);
  if (shared_) std::erase_if(sorted, [&](int32_t id) { return has_bit(*shared_, id); });
  insert_ids(added_, sorted);
  if (added_.size() > kFew) own_words();
}

void TokenRow::remove(std::span<const int32_t> ids) {
  if (ids.size() > kFew) {
    Words& words = own_words();
    for (const int32_t id : ids) clear_bit(words, id);
    return;
  }
  std::vector<int32_t> sorted = sorted_ids(ids);
  erase_ids(added_, sorted);
  if (!shared_) return;
  std::erase_if(sorted, [&](int32_t id) { return !has_bit(*shared_, id); });
  insert_ids(removed_, sorted);
}

// All tokens as words that no other row has.
TokenRow::Words& TokenRow::own_words() {
  if (!shared_ || shared_.use_count() > 1) {
    auto words = std::make_shared<Words>(n_words_);
    write(*words);
    shared_ = std::move(words);
  } else {
    write_changes(*shared_);
  }
  added_.clear();
  removed_.clear();
  return *shared_;
}

void TokenRow::add(const TokenRow& other) {
  if (!other.shared_) return add(other.added_);
  if (!shared_) {
    const std::vector<int32_t> few = std::move(added_);
    *this = other;
    return add(few);
  }
  if (shared_ == other.shared_) {
    std::vector<int32_t> removed;
    std::ranges::set_intersection(removed_, other.removed_, std::back_inserter(removed));
    removed_ = std::move(removed);
    insert_ids(added_, other.added_);
    return;
  }
  Words& words = own_words();
  Words theirs(n_words_);
  other.write(theirs);
  for (size_t i = 0; i < n_words_; ++i) words[i] |= theirs[i];
}

bool TokenRow::contains(int32_t id) const {
  if (std::ranges::binary_search(added_, id)) return true;
  return shared_ && has_bit(*shared_, id) && !std::ranges::binary_search(removed_, id);
}

size_t TokenRow::size() const {
  if (is_list()) return added_.size();
  std::vector<uint64_t> words(n_words_);
  write(words);
  return std::transform_reduce(words.begin(), words.end(), size_t{0}, std::plus<>(),
                               [](uint64_t word) { return static_cast<size_t>(std::popcount(word)); });
}

bool TokenRow::is_empty() const {
  if (!added_.empty()) return false;
  if (!shared_) return true;
  Words words(n_words_);
  write(words);
  return std::ranges::all_of(words, [](uint64_t word) { return word == 0; });
}

void TokenRow::write(std::span<uint64_t> words) const {
  if (shared_) {
    std::ranges::copy(*shared_, words.begin());
  } else {
    std::ranges::fill(words, 0);
  }
  write_changes(words);
}

void TokenRow::write_changes(std::span<uint64_t> words) const {
  for (const int32_t id : removed_) clear_bit(words, id);
  for (const int32_t id : added_) set_bit(words, id);
}

size_t TokenRow::n_bytes() const {
  const size_t n_own = shared_.use_count() == 1 ? n_words_ * sizeof(uint64_t) : 0;
  return sizeof(*this) + n_own + (added_.capacity() + removed_.capacity()) * sizeof(int32_t);
}

}  // namespace tessera::text::grammar
