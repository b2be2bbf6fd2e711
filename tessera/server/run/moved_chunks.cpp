#include "tessera/server/run/moved_chunks.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::server {

namespace {

using Tokens = std::span<const int32_t>;

// The first place of `pattern` in `text`; text.size(): there is none. Linear also for repetitive texts (Knuth, Morris
// and Pratt 1977), since a client chooses both.
size_t find_pattern(Tokens text, Tokens pattern) {
  std::vector<size_t> borders(pattern.size(), 0);  // by end: the longest proper prefix that is a suffix there
  for (size_t i = 1, n = 0; i < pattern.size(); ++i) {
    while (n > 0 && pattern[i] != pattern[n]) n = borders[n - 1];
    if (pattern[i] == pattern[n]) ++n;
    borders[i] = n;
  }
  for (size_t i = 0, n = 0; i < text.size(); ++i) {
    while (n > 0 && text[i] != pattern[n]) n = borders[n - 1];
    if (text[i] == pattern[n]) ++n;
    if (n == pattern.size()) return i + 1 - n;
  }
  return text.size();
}

}  // namespace

std::vector<MovedChunk> moved_chunks(Tokens held, Tokens wanted, int64_t n_common, int64_t n_least) {
  std::vector<MovedChunk> chunks;
  if (n_least < 1) return chunks;
  int64_t from = n_common, to = n_common;
  while (std::min(std::ssize(held) - from, std::ssize(wanted) - to) >= n_least) {
    const Tokens left = wanted.subspan(to_size(to));
    const Tokens rest = held.subspan(to_size(from));
    const size_t place = find_pattern(rest, left.first(to_size(n_least)));
    if (place == rest.size()) break;
    const Tokens found = rest.subspan(place);
    const int64_t n = std::ranges::mismatch(found, left).in1 - found.begin();
    from += static_cast<int64_t>(place);
    chunks.push_back({.from = from, .to = to, .n = n});
    from += n;
    to += n;
  }
  return chunks;
}

}  // namespace tessera::server
