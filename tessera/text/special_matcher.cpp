// The sorted texts serve as a trie. Each further byte of the input narrows the range of entries that share the prefix
// read so far.
#include "tessera/text/special_matcher.h"

#include <algorithm>
#include <tuple>

namespace tessera::text {

bool ControlTokenPlaces::include(size_t begin, size_t end) const {
  return anywhere && MarkedView{{}, given}.given_within(begin, end).empty();
}

SpecialMatcher::SpecialMatcher(const Vocab& vocab) {
  if (!vocab.has_text()) return;
  for (size_t i = 0; i < vocab.n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocab.type(id);
    const bool is_special = type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
    const std::string_view text = vocab.text(id);
    if (!is_special || text.empty() || text.size() > kMaxSpecialBytes) continue;
    entries_.push_back({text, id, type == TokenType::user_defined});
    starts_[static_cast<uint8_t>(text[0])] = true;
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.text, a.id) < std::tie(b.text, b.id); });
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text, size_t from,
                                                          const ControlTokenPlaces& places) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    if (const auto match = match_at(text, begin, places)) return match;
  }
  return std::nullopt;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::match_at(std::string_view text, size_t begin,
                                                              const ControlTokenPlaces& places) const {
  std::optional<Match> longest;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (size_t depth = 0; begin + depth < text.size(); ++depth) {
    // All entries in [low, high) share `depth` bytes with the text. Entries of exactly that length come first.
    const auto byte = static_cast<uint8_t>(text[begin + depth]);
    const auto byte_of = [depth](const Entry& e) {
      return depth < e.text.size() ? static_cast<int>(static_cast<uint8_t>(e.text[depth])) : -1;
    };
    low = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) < byte; });
    high = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) == byte; });
    if (low == high) break;
    for (auto e = low; e != high && e->text.size() == depth + 1; ++e) {
      if (!e->is_user_defined && !places.include(begin, begin + depth + 1)) continue;
      longest = Match{begin, begin + depth + 1, e->id};
      break;
    }
  }
  return longest;
}

}  // namespace tessera::text
