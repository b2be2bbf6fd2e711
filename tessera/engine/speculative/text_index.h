// An index of token texts. It finds earlier places where the last tokens of a text occurred.
//
// The places of each sequence of kKeyLengths tokens are chained, the last one first, as in LZ77 compressors. A search
// looks at a bounded number of places.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class TextIndex {
 public:
  /// The least length of a match.
  static constexpr int64_t kLeastMatch = 2;
  /// Longer matches count as this long.
  static constexpr int64_t kMostMatch = 64;

  /// Keeps at least the last n_most / 2 tokens, and at most n_most.
  explicit TextIndex(int64_t n_most) : n_most_(n_most) {}

  /// Adds a token to the last text. Memory is allocated as the index grows: 20 bytes per token.
  void append(int32_t token);
  void append(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) append(token);
  }
  /// The next token begins another text. No match reaches over its start.
  void end_text();
  void clear();

  /// All texts, each but the last followed by kEnd.
  std::span<const int32_t> tokens() const { return tokens_; }
  static constexpr int32_t kEnd = -1;

  struct Match {
    int64_t end = 0;     // of the match: the guess is the text from there on
    int64_t length = 0;  // tokens that are the same, up to kMostMatch
  };
  /// Appends places after which a token of the same text follows and before which the last tokens are those of the
  /// query, kLeastMatch or more. A place may occur twice. Later places come before earlier ones of the same key.
  void find(std::span<const int32_t> query, std::vector<Match>& matches) const;

 private:
  // Long keys find the old places of a frequent pair of tokens.
  static constexpr std::array<int64_t, 2> kKeyLengths = {6, kLeastMatch};
  static constexpr int kMostVisited = 64;

  struct Chains {
    std::vector<int32_t> last;      // by bucket: the last place, or -1
    std::vector<int32_t> previous;  // by place: the one before it in its bucket
  };

  void drop_older_half();
  void add_place(size_t level, int64_t end);
  void grow_buckets();
  size_t bucket(std::span<const int32_t> key) const;

  int64_t n_most_;
  std::vector<int32_t> tokens_;
  std::array<Chains, kKeyLengths.size()> chains_;
};

}  // namespace tessera
