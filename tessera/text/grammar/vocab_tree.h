// The texts of a vocabulary's tokens as a tree by bytes, in depth-first order: a walk skips a subtree by one index, and
// the tokens of a subtree are consecutive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/byte_set.h"

namespace tessera::text::grammar {

class VocabTree {
 public:
  static constexpr size_t kMaxTokenBytes = 1024;

  struct Token {
    std::string_view text;  // borrowed until the constructor returns
    int32_t id;
  };
  struct Node {
    uint64_t groups;       // of the bytes in the subtree below the node
    uint32_t end;          // the node after the subtree
    uint32_t first_token;  // place of the first token of the subtree
    uint16_t depth;        // length of the node's text in bytes
    uint16_t height;       // of the subtree: the most bytes that follow
    uint8_t byte;          // the last of the text
  };

  /// Bytes in groups that lexemes mostly treat alike, as bits.
  static uint64_t group_of(uint8_t byte);
  /// The groups that have a byte in a set.
  static uint64_t groups_of(const ByteSet& set);
  /// The groups whose bytes are all in a set.
  static uint64_t groups_in(const ByteSet& set);

  /// Tokens without text and those longer than kMaxTokenBytes are left out.
  explicit VocabTree(std::vector<Token> tokens);

  /// Node 0 is the root, the empty text. The children of a node are node + 1 and, from each child, its end, up to the
  /// end of the node.
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  const Node& node(uint32_t node) const { return nodes_[node]; }

  /// The ids of all tokens, in the order of their texts.
  std::span<const int32_t> ids() const { return ids_; }
  /// The ids of the tokens whose text is the node's.
  std::span<const int32_t> tokens(uint32_t node) const { return ids(node, node + 1); }
  /// The ids of the tokens whose texts begin with the node's.
  std::span<const int32_t> tokens_below(uint32_t node) const { return ids(node, nodes_[node].end); }

 private:
  std::span<const int32_t> ids(uint32_t first, uint32_t last) const {
    return std::span(ids_).subspan(nodes_[first].first_token, nodes_[last].first_token - nodes_[first].first_token);
  }

  std::vector<Node> nodes_;  // and one after the last
  std::vector<int32_t> ids_;
};

}  // namespace tessera::text::grammar
