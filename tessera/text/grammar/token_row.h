// A set of tokens. Most sets of a grammar are few tokens, or a large set that many states share with a few tokens added
// or removed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::text::grammar {

class TokenRow {
 public:
  /// Without tokens, for a vocabulary of n_tokens.
  explicit TokenRow(size_t n_tokens) : n_words_((n_tokens + 63) / 64) {}

  void add(std::span<const int32_t> ids);
  void add(const TokenRow& other);
  void remove(std::span<const int32_t> ids);

  bool contains(int32_t id) const;
  bool is_empty() const;
  /// The number of tokens.
  size_t size() const;
  /// Whether the set is a list, which ids() returns in ascending order.
  bool is_list() const { return shared_ == nullptr; }
  std::span<const int32_t> ids() const { return added_; }
  size_t n_words() const { return n_words_; }
  /// Sets n_words() words: token i is bit i % 64 of word i / 64.
  void write(std::span<uint64_t> words) const;

  /// Memory, without what it shares with other rows.
  size_t n_bytes() const;

 private:
  using Words = std::vector<uint64_t>;
  Words& own_words();
  void write_changes(std::span<uint64_t> words) const;

  size_t n_words_;
  std::shared_ptr<Words> shared_;  // may be null; changes only while no other row has it
  std::vector<int32_t> added_;     // sorted, not in shared_
  std::vector<int32_t> removed_;   // sorted, in shared_
};

}  // namespace tessera::text::grammar
