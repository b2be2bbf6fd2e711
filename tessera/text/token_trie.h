// The texts of tokens as a tree by bytes: finds all tokens that a text starts with, one step per byte. Used by the
// tokenizers that match whole tokens (WPM, UGM, RWKV). The children of a node stand together, sorted by their byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// A longer token is never matched in a text: it bounds the work per byte of text.
inline constexpr size_t kMaxMatchBytes = 512;
inline constexpr size_t kMaxTrieNodes = size_t{1} << 26;

class TokenTrie {
 public:
  struct Entry {
    std::string_view text;  // borrowed until create() returns
    int32_t id;
  };
  struct Match {
    int32_t id;
    size_t n_bytes;
    bool operator==(const Match&) const = default;
  };

  /// Of entries with one text the first counts; empty texts and those above kMaxMatchBytes are left out.
  /// Error: limit above kMaxTrieNodes.
  static Result<TokenTrie> create(std::vector<Entry> entries);

  /// The child of a node by the next byte, 0 for none; node 0 is the root.
  uint32_t child(uint32_t node, char byte) const;

  /// The token that ends at a node, -1 for none.
  int32_t id(uint32_t node) const { return nodes_[node].id; }

  /// The longest token that text starts with.
  std::optional<Match> longest(std::string_view text) const;

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    uint8_t byte = 0;
    int32_t id = -1;
  };
  std::vector<Node> nodes_{1};
  std::array<uint32_t, 256> roots_{};  // the root's children, by byte
};

}  // namespace tessera::text
