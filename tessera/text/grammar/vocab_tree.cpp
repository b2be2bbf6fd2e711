#include "tessera/text/grammar/vocab_tree.h"

#include <algorithm>

namespace tessera::text::grammar {

VocabTree::VocabTree(std::vector<Token> tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.text.empty() || token.text.size() > kMaxTokenBytes; });
  std::ranges::sort(tokens, [](const Token& a, const Token& b) {
    const int order = a.text.compare(b.text);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  nodes_.push_back({.end = 0, .first_token = 0, .depth = 0, .height = 0, .byte = 0});
  std::vector<uint32_t> path = {0};  // the nodes of the text before
  std::string_view before;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth + 1) {
      Node& node = nodes_[path.back()];
      node.end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
      Node& parent = nodes_[path.back()];
      parent.height = std::max<uint16_t>(parent.height, static_cast<uint16_t>(node.height + 1));
    }
  };
  for (const Token& token : tokens) {
    const auto differ = std::ranges::mismatch(before, token.text);
    close_to(static_cast<size_t>(differ.in1 - before.begin()));
    for (size_t i = path.size() - 1; i < token.text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.end = 0,
                        .first_token = static_cast<uint32_t>(ids_.size()),
                        .depth = static_cast<uint16_t>(i + 1),
                        .height = 0,
                        .byte = static_cast<uint8_t>(token.text[i])});
    }
    ids_.push_back(token.id);
    before = token.text;
  }
  close_to(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.end = nodes_[0].end,
                    .first_token = static_cast<uint32_t>(ids_.size()),
                    .depth = 0,
                    .height = 0,
                    .byte = 0});
}

}  // namespace tessera::text::grammar
