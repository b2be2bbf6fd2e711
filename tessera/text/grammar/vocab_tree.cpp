#include "tessera/text/grammar/vocab_tree.h"

#include <algorithm>

namespace tessera::text::grammar {

// Lower case, upper case and digits are three groups, each other character of ASCII from the space on is one, line
// feeds and tabs are one each. All other bytes are the last group.
uint64_t VocabTree::group_of(uint8_t byte) {
  constexpr int kOther = 40;
  int group = kOther;
  if (byte >= 'a' && byte <= 'z')
    group = 0;
  else if (byte >= 'A' && byte <= 'Z')
    group = 1;
  else if (byte >= '0' && byte <= '9')
    group = 2;
  else if (byte == '\n')
    group = 3;
  else if (byte == '\t')
    group = 4;
  else if (byte >= ' ' && byte < '0')
    group = 5 + (byte - ' ');  // to 20
  else if (byte > '9' && byte < 'A')
    group = 21 + (byte - '9' - 1);  // to 27
  else if (byte > 'Z' && byte < 'a')
    group = 28 + (byte - 'Z' - 1);  // to 33
  else if (byte > 'z' && byte < 0x7f)
    group = 34 + (byte - 'z' - 1);  // to 37
  return uint64_t{1} << group;
}

uint64_t VocabTree::groups_of(const ByteSet& set) {
  uint64_t groups = 0;
  set.for_each([&](uint8_t byte) { groups |= group_of(byte); });
  return groups;
}

uint64_t VocabTree::groups_in(const ByteSet& set) {
  uint64_t inside = ~uint64_t{0} >> 1;
  for (int byte = 0; byte < 256; ++byte)
    if (!set.contains(static_cast<uint8_t>(byte))) inside &= ~group_of(static_cast<uint8_t>(byte));
  return inside;
}

VocabTree::VocabTree(std::vector<Token> tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.text.empty() || token.text.size() > kMaxTokenBytes; });
  std::ranges::sort(tokens, [](const Token& a, const Token& b) {
    const int order = a.text.compare(b.text);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  nodes_.push_back({.groups = 0, .end = 0, .first_token = 0, .depth = 0, .height = 0, .byte = 0});
  std::vector<uint32_t> path = {0};  // the nodes of the text before
  std::string_view before;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth + 1) {
      Node& node = nodes_[path.back()];
      node.end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
      Node& parent = nodes_[path.back()];
      parent.groups |= node.groups | group_of(node.byte);
      parent.height = std::max<uint16_t>(parent.height, static_cast<uint16_t>(node.height + 1));
    }
  };
  for (const Token& token : tokens) {
    const auto differ = std::ranges::mismatch(before, token.text);
    close_to(static_cast<size_t>(differ.in1 - before.begin()));
    for (size_t i = path.size() - 1; i < token.text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.groups = 0,
                        .end = 0,
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
  nodes_.push_back({.groups = 0,
                    .end = nodes_[0].end,
                    .first_token = static_cast<uint32_t>(ids_.size()),
                    .depth = 0,
                    .height = 0,
                    .byte = 0});
}

}  // namespace tessera::text::grammar
