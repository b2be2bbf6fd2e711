// The tree of the prefix cache: which tokens are in retained blocks. A node is one block with its tokens; the path from
// a root to a node is a prefix of some sequences. PrefixCache is the only user. It retains and releases what the nodes
// name, and the tree only keeps order.
//
// Invariants: only a leaf has fewer tokens than a block. The children of a node differ in their tokens, which order
// them. A node in use has only ancestors in use. No function recurses, because a path may have thousands of nodes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/cache/sequence_memory.h"

namespace tessera {

struct PrefixNode;

/// Lexicographic, so that the child with the longest common prefix is beside the lower bound.
struct PrefixNodeOrder {
  using is_transparent = void;
  bool operator()(const PrefixNode* a, const PrefixNode* b) const;
  bool operator()(const PrefixNode* a, std::span<const int32_t> b) const;
  bool operator()(std::span<const int32_t> a, const PrefixNode* b) const;
};

struct PrefixNode {
  PrefixNode* parent = nullptr;                       // null: a root
  const std::string* root_key = nullptr;              // of a root
  std::set<PrefixNode*, PrefixNodeOrder> children{};  // by tokens
  std::vector<int32_t> tokens{};                      // of the block, at most 64; none in a root
  int32_t end = 0;                                    // the position after its last token
  int32_t block = -1;                                 // of group 0
  int32_t n_partial_children = 0;                     // children with fewer than 64 tokens
  int32_t n_users = 0;                                // sequences with this node on their path
  std::optional<Mark> mark{};                         // at `end`
  uint64_t serial = 0;                                // differs from that of any other node, earlier ones included
  uint64_t last_use = 0;                              // of the node, and of its mark: times of the tree's clock
  uint64_t last_mark_use = 0;

  bool is_root() const { return parent == nullptr; }
  bool is_partial() const;
};

class PrefixTree {
 public:
  /// The root of a key. find_root() returns null if there is none.
  PrefixNode* find_root(const std::string& key) const;
  PrefixNode* add_root(const std::string& key);
  /// Removes a root without children and users; else does nothing.
  void remove_unused_root(PrefixNode* root);

  // --- children

  /// The child with exactly these tokens, or null.
  static PrefixNode* find_child(const PrefixNode& node, std::span<const int32_t> tokens);
  /// The child with the longest common prefix with `tokens`, and its length; null and 0 if there is none.
  struct Common {
    PrefixNode* child = nullptr;
    int32_t n_tokens = 0;
  };
  static Common longest_common(const PrefixNode& node, std::span<const int32_t> tokens);
  /// The longest child of fewer than 64 tokens with which `tokens` begins, or null.
  static PrefixNode* longest_prefix(const PrefixNode& node, std::span<const int32_t> tokens);
  /// The node must have no child with the same tokens.
  PrefixNode* add_child(PrefixNode* parent, std::span<const int32_t> tokens, int32_t block);
  /// Removes a leaf that is not in use and has no mark. Its parent may become a leaf.
  void remove(PrefixNode* leaf);

  // --- use

  /// A sequence that uses a node uses all nodes on its path. use_child() moves it from a node to a child.
  void use_path(PrefixNode* node);
  void use_child(PrefixNode* child);
  void leave_path(PrefixNode* node);
  /// The node, or its mark, was used last.
  void touch(PrefixNode* node);
  void touch_mark(PrefixNode* node);
  void set_mark(PrefixNode* node, Mark mark);
  Mark take_mark(PrefixNode* node);

  /// Least recently used: a leaf that is not in use; a node with a mark. Null: there is none.
  PrefixNode* oldest_leaf() const { return leaves_.empty() ? nullptr : leaves_.begin()->second; }
  PrefixNode* oldest_mark() const { return marks_.empty() ? nullptr : marks_.begin()->second; }

  int64_t n_nodes() const { return n_nodes_; }  // without roots
  int64_t n_used() const { return n_used_; }    // likewise
  int64_t n_marks() const { return static_cast<int64_t>(marks_.size()); }
  int64_t n_roots() const { return static_cast<int64_t>(roots_.size()); }

 private:
  PrefixNode* make();
  void recycle(PrefixNode* node);
  static bool is_evictable(const PrefixNode& node) {
    return !node.is_root() && node.children.empty() && node.n_users == 0;
  }

  std::deque<PrefixNode> storage_;   // nodes keep their addresses
  std::vector<PrefixNode*> unused_;  // of storage_
  std::map<std::string, PrefixNode*, std::less<>> roots_;
  std::map<uint64_t, PrefixNode*> leaves_;  // evictable nodes by last_use
  std::map<uint64_t, PrefixNode*> marks_;   // by last_mark_use
  uint64_t clock_ = 0;                      // counts uses and nodes: no value occurs twice
  int64_t n_nodes_ = 0;
  int64_t n_used_ = 0;
};

}  // namespace tessera
