// Built level by level from the sorted texts. A node is a range of texts that share their first bytes.
#include "tessera/text/token_trie.h"

#include <algorithm>

namespace tessera::text {

Result<TokenTrie> TokenTrie::create(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& e) { return e.text.empty() || e.text.size() > kMaxMatchBytes; });
  const auto by_text = [](const Entry& a, const Entry& b) { return a.text < b.text; };
  std::stable_sort(entries.begin(), entries.end(), by_text);

  struct Span {
    size_t begin, end;
  };
  TokenTrie trie;
  std::vector<Span> level{{0, entries.size()}};  // of the last level.size() nodes
  for (size_t depth = 0; !level.empty(); ++depth) {
    const size_t first_node = trie.nodes_.size() - level.size();
    std::vector<Span> next;
    for (size_t k = 0; k < level.size(); ++k) {
      auto [at, end] = level[k];
      Node& node = trie.nodes_[first_node + k];
      if (at < end && entries[at].text.size() == depth) node.id = entries[at].id;
      while (at < end && entries[at].text.size() == depth) ++at;
      node.first_child = static_cast<uint32_t>(first_node + level.size() + next.size());
      while (at < end) {
        const char byte = entries[at].text[depth];
        size_t same = at;
        while (same < end && entries[same].text[depth] == byte) ++same;
        next.push_back({at, same});
        ++node.n_children;
        at = same;
      }
    }
    if (trie.nodes_.size() + next.size() > kMaxTrieNodes)
      return fail(ErrorCode::limit, "tokenizer.ggml.tokens: texts of over {} different beginnings", kMaxTrieNodes);
    for (const Span& span : next) {
      trie.nodes_.emplace_back();
      trie.nodes_.back().byte = static_cast<uint8_t>(entries[span.begin].text[depth]);
    }
    level = std::move(next);
  }
  const Node& root = trie.nodes_[0];
  for (uint32_t i = 0; i < root.n_children; ++i)
    trie.roots_[trie.nodes_[root.first_child + i].byte] = root.first_child + i;
  return trie;
}

uint32_t TokenTrie::child(uint32_t node, char byte) const {
  const auto value = static_cast<uint8_t>(byte);
  if (node == 0) return roots_[value];
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = begin + nodes_[node].n_children;
  const auto found = std::lower_bound(begin, end, value, [](const Node& n, uint8_t b) { return n.byte < b; });
  return found != end && found->byte == value ? static_cast<uint32_t>(found - nodes_.begin()) : 0;
}

std::optional<TokenTrie::Match> TokenTrie::longest(std::string_view text) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    if (nodes_[node].id >= 0) best = Match{nodes_[node].id, i + 1};
  }
  return best;
}

}  // namespace tessera::text
