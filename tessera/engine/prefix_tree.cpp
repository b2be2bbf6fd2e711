#include "tessera/engine/prefix_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/index.h"

namespace tessera {

namespace {

using Tokens = std::span<const int32_t>;

bool is_before(Tokens a, Tokens b) { return std::ranges::lexicographical_compare(a, b); }

size_t n_common(Tokens a, Tokens b) { return to_size(std::ranges::mismatch(a, b).in1 - a.begin()); }

}  // namespace

bool PrefixNodeOrder::operator()(const PrefixNode* a, const PrefixNode* b) const {
  return is_before(a->tokens, b->tokens);
}
bool PrefixNodeOrder::operator()(const PrefixNode* a, Tokens b) const { return is_before(a->tokens, b); }
bool PrefixNodeOrder::operator()(Tokens a, const PrefixNode* b) const { return is_before(a, b->tokens); }

bool PrefixNode::is_partial() const { return std::ssize(tokens) < kKvBlockTokens; }

// --- nodes

PrefixNode* PrefixTree::make() {
  if (unused_.empty()) unused_.push_back(&storage_.emplace_back());
  PrefixNode* node = unused_.back();
  unused_.pop_back();
  node->serial = node->last_use = ++clock_;
  return node;
}

void PrefixTree::recycle(PrefixNode* node) {
  *node = {};
  unused_.push_back(node);
}

PrefixNode* PrefixTree::find_root(const std::string& key) const {
  const auto found = roots_.find(key);
  return found == roots_.end() ? nullptr : found->second;
}

PrefixNode* PrefixTree::add_root(const std::string& key) {
  const auto [at, is_new] = roots_.try_emplace(key, nullptr);
  if (!is_new) return at->second;
  at->second = make();
  at->second->root_key = &at->first;
  return at->second;
}

void PrefixTree::remove_unused_root(PrefixNode* root) {
  if (!root->children.empty() || root->n_users > 0) return;
  roots_.erase(roots_.find(*root->root_key));
  recycle(root);
}

// --- children

PrefixNode* PrefixTree::find_child(const PrefixNode& node, Tokens tokens) {
  const auto found = node.children.find(tokens);
  return found == node.children.end() ? nullptr : *found;
}

PrefixTree::Common PrefixTree::longest_common(const PrefixNode& node, Tokens tokens) {
  Common best;
  const auto consider = [&](PrefixNode* child) {
    const auto n = static_cast<int32_t>(n_common(child->tokens, tokens));
    if (n > best.n_tokens) best = {child, n};
  };
  const auto bound = node.children.lower_bound(tokens);
  if (bound != node.children.end()) consider(*bound);
  if (bound != node.children.begin()) consider(*std::prev(bound));
  return best;
}

// All children between a prefix of `tokens` and `tokens` itself begin with that prefix. So a prefix is no longer than
// what the child before `tokens` has in common with it, and the search continues with these tokens.
PrefixNode* PrefixTree::longest_prefix(const PrefixNode& node, Tokens tokens) {
  while (node.n_partial_children > 0 && !tokens.empty()) {
    const auto bound = node.children.upper_bound(tokens);
    if (bound == node.children.begin()) return nullptr;
    PrefixNode* child = *std::prev(bound);
    const size_t n = n_common(child->tokens, tokens);
    if (child->is_partial() && n == child->tokens.size()) return child;
    tokens = tokens.first(std::min(n, tokens.size() - 1));
  }
  return nullptr;
}

PrefixNode* PrefixTree::add_child(PrefixNode* parent, Tokens tokens, int32_t block) {
  PrefixNode* node = make();
  if (is_evictable(*parent)) leaves_.erase(parent->last_use);
  node->parent = parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->end = parent->end + static_cast<int32_t>(tokens.size());
  node->block = block;
  parent->children.insert(node);
  if (node->is_partial()) ++parent->n_partial_children;
  leaves_.emplace(node->last_use, node);
  ++n_nodes_;
  return node;
}

void PrefixTree::remove(PrefixNode* leaf) {
  PrefixNode* parent = leaf->parent;
  leaves_.erase(leaf->last_use);
  parent->children.erase(leaf);
  if (leaf->is_partial()) --parent->n_partial_children;
  --n_nodes_;
  recycle(leaf);
  if (is_evictable(*parent)) leaves_.emplace(parent->last_use, parent);
}

// --- use

void PrefixTree::use_path(PrefixNode* node) {
  for (; !node->is_root(); node = node->parent) use_child(node);
  ++node->n_users;
}

void PrefixTree::use_child(PrefixNode* child) {
  if (is_evictable(*child)) leaves_.erase(child->last_use);
  child->last_use = ++clock_;
  if (child->n_users++ == 0) ++n_used_;
}

void PrefixTree::leave_path(PrefixNode* node) {
  for (; !node->is_root(); node = node->parent) {
    node->last_use = ++clock_;
    if (--node->n_users > 0) continue;
    --n_used_;
    if (is_evictable(*node)) leaves_.emplace(node->last_use, node);
  }
  --node->n_users;
}

void PrefixTree::touch(PrefixNode* node) {
  if (is_evictable(*node)) {
    leaves_.erase(node->last_use);
    leaves_.emplace(clock_ + 1, node);
  }
  node->last_use = ++clock_;
}

void PrefixTree::touch_mark(PrefixNode* node) {
  marks_.erase(node->last_mark_use);
  node->last_mark_use = ++clock_;
  marks_.emplace(node->last_mark_use, node);
}

void PrefixTree::set_mark(PrefixNode* node, Mark mark) {
  node->mark = std::move(mark);
  touch_mark(node);
}

Mark PrefixTree::take_mark(PrefixNode* node) {
  marks_.erase(node->last_mark_use);
  return *std::exchange(node->mark, std::nullopt);
}

}  // namespace tessera
