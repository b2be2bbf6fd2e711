// The tree of the prefix cache without a session: searches against a search over all children, and the order of
// eviction.
#include "tessera/engine/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tessera/base/rng.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

Ids block_of(int32_t token) { return Ids(static_cast<size_t>(kKvBlockTokens), token); }

size_t common_length(const Ids& a, const Ids& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(PrefixTree, FindsChildrenByTheirTokens) {
  PrefixTree tree;
  PrefixNode* root = tree.add_root("a");
  EXPECT_EQ(tree.add_root("a"), root);
  EXPECT_NE(tree.add_root("b"), root);
  EXPECT_EQ(tree.find_root("c"), nullptr);
  PrefixNode* one = tree.add_child(root, block_of(1), 10);
  PrefixNode* below = tree.add_child(one, Ids{4, 5}, 11);
  EXPECT_EQ(PrefixTree::find_child(*root, block_of(1)), one);
  EXPECT_EQ(PrefixTree::find_child(*root, block_of(2)), nullptr);
  EXPECT_EQ(PrefixTree::find_child(*one, Ids{4, 5}), below);
  EXPECT_EQ(PrefixTree::find_child(*one, Ids{4}), nullptr);
  EXPECT_EQ(one->end, 64);
  EXPECT_EQ(below->end, 66);
  EXPECT_EQ(tree.n_nodes(), 2);
}

// Few different tokens, so that many children share a start.
TEST(PrefixTree, SearchesAgreeWithASearchOfAllChildren) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto random_ids = [&](uint32_t n_least, uint32_t n_most) {
      Ids ids(n_least + rng.next_u32() % (n_most - n_least + 1));
      for (int32_t& id : ids) id = static_cast<int32_t>(rng.next_u32() % (1 + seed % 3)) + (rng.next_u32() % 16 == 0);
      return ids;
    };
    PrefixTree tree;
    PrefixNode* root = tree.add_root("");
    std::vector<Ids> all;
    for (int i = 0; i < 30; ++i) {
      const Ids ids = i % 3 == 0 ? random_ids(64, 64) : random_ids(1, 63);
      if (std::ranges::find(all, ids) != all.end()) continue;
      all.push_back(ids);
      tree.add_child(root, ids, i);
    }
    for (int i = 0; i < 30; ++i) {
      const Ids query = random_ids(1, 64);
      size_t longest = 0, prefix = 0;
      for (const Ids& ids : all) {
        const size_t n = common_length(ids, query);
        longest = std::max(longest, n);
        if (n == ids.size() && n < 64) prefix = std::max(prefix, n);
      }
      const auto [child, n_tokens] = PrefixTree::longest_common(*root, query);
      ASSERT_EQ(static_cast<size_t>(n_tokens), longest) << "seed " << seed;
      ASSERT_EQ(child == nullptr, longest == 0);
      if (child != nullptr) {
        ASSERT_EQ(common_length(child->tokens, query), longest);
      }
      const PrefixNode* found = PrefixTree::longest_prefix(*root, query);
      ASSERT_EQ(found == nullptr ? 0 : found->tokens.size(), prefix) << "seed " << seed;
    }
  }
}

TEST(PrefixTree, TheOldestLeafIsTheLeastRecentlyUsedOne) {
  PrefixTree tree;
  PrefixNode* root = tree.add_root("");
  PrefixNode* a = tree.add_child(root, block_of(1), 0);
  PrefixNode* b = tree.add_child(root, block_of(2), 1);
  PrefixNode* below_a = tree.add_child(a, block_of(3), 2);
  EXPECT_EQ(tree.oldest_leaf(), b);  // a is older, but no leaf
  tree.touch(b);
  EXPECT_EQ(tree.oldest_leaf(), below_a);
  tree.remove(below_a);
  EXPECT_EQ(tree.oldest_leaf(), a);
  tree.remove(a);
  tree.remove(b);
  EXPECT_EQ(tree.oldest_leaf(), nullptr);
  EXPECT_EQ(tree.n_nodes(), 0);
  tree.remove_unused_root(root);
  EXPECT_EQ(tree.n_roots(), 0);
}

TEST(PrefixTree, NodesInUseAreNoCandidates) {
  PrefixTree tree;
  PrefixNode* root = tree.add_root("");
  PrefixNode* a = tree.add_child(root, block_of(1), 0);
  PrefixNode* below = tree.add_child(a, block_of(2), 1);
  PrefixNode* other = tree.add_child(root, block_of(3), 2);
  tree.use_path(a);
  tree.use_child(below);
  EXPECT_EQ(tree.n_used(), 2);
  EXPECT_EQ(tree.oldest_leaf(), other);
  tree.remove(other);
  EXPECT_EQ(tree.oldest_leaf(), nullptr);
  tree.use_path(below);
  tree.leave_path(below);
  EXPECT_EQ(tree.oldest_leaf(), nullptr);
  tree.remove_unused_root(root);
  EXPECT_EQ(tree.n_roots(), 1);
  tree.leave_path(below);
  EXPECT_EQ(tree.n_used(), 0);
  EXPECT_EQ(tree.oldest_leaf(), below);
}

TEST(PrefixTree, TheOldestMarkIsTheLeastRecentlyUsedOne) {
  PrefixTree tree;
  PrefixNode* a = tree.add_child(tree.add_root(""), block_of(1), 0);
  PrefixNode* b = tree.add_child(a, block_of(2), 0);
  EXPECT_EQ(tree.oldest_mark(), nullptr);
  tree.set_mark(a, {.n_positions = 64});
  tree.set_mark(b, {.n_positions = 128});
  EXPECT_EQ(tree.oldest_mark(), a);
  tree.touch_mark(a);
  EXPECT_EQ(tree.oldest_mark(), b);
  EXPECT_EQ(tree.take_mark(b).n_positions, 128);
  EXPECT_FALSE(b->mark.has_value());
  EXPECT_EQ(tree.oldest_mark(), a);
  EXPECT_EQ(tree.n_marks(), 1);
}

TEST(PrefixTree, ANodeAtTheAddressOfARemovedOneHasAnotherSerial) {
  PrefixTree tree;
  PrefixNode* root = tree.add_root("");
  PrefixNode* a = tree.add_child(root, block_of(1), 0);
  const uint64_t serial = a->serial;
  tree.remove(a);
  EXPECT_NE(a->serial, serial);
  EXPECT_EQ(tree.add_child(root, block_of(1), 0), a);
  EXPECT_NE(a->serial, serial);
}

// Long chains would overflow the stack of a recursive function.
TEST(PrefixTree, ChainsOfManyNodesAreUsedAndRemoved) {
  PrefixTree tree;
  PrefixNode* node = tree.add_root("");
  for (int32_t i = 0; i < 200'000; ++i) node = tree.add_child(node, Ids{i}, i);
  tree.use_path(node);
  tree.leave_path(node);
  while (PrefixNode* leaf = tree.oldest_leaf()) tree.remove(leaf);
  EXPECT_EQ(tree.n_nodes(), 0);
}

}  // namespace
}  // namespace tessera
