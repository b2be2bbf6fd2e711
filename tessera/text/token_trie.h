// The texts of tokens as a tree by bytes. It finds all tokens that are prefixes of a text, with one step per byte. Used
// by the tokenizers that match whole tokens (WPM, UGM, RWKV, PLaMo 2). The children of a node are consecutive and
// sorted by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// Longest token that is matched in a text. It bounds the work per byte of text.
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

  /// If several entries have the same text, the first counts. Empty texts and texts longer than kMaxMatchBytes are left
  /// out. Error: limit above kMaxTrieNodes.
  static Result<TokenTrie> create(std::vector<Entry> entries);

  /// Returns the child of a node for the next byte, or 0 if there is none. Node 0 is the root.
  uint32_t child(uint32_t node, char byte) const;

  /// The token whose text ends at a node, or -1.
  int32_t id(uint32_t node) const { return nodes_[node].id; }

  /// The longest token that is a prefix of text.
  std::optional<Match> longest(std::string_view text) const;

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    uint8_t byte = 0;
    int32_t id = -1;
  };
  std::vector<Node> nodes_{1};
  std::array<uint32_t, 256> roots_{};  // children of the root by byte
};

}  // namespace tessera::text
