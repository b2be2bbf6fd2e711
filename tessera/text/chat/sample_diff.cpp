#include "tessera/text/chat/sample_diff.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera::text {
namespace {

constexpr size_t kMaxBracketBytes = 128;  // a bracket that stays open for longer is no mark

// Bytes of words, and all bytes of characters beyond ASCII.
bool is_in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const bool is_letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
  return is_letter || (byte >= '0' && byte <= '9') || byte == '_' || byte >= 0x80;
}

// Whether a bracket before the place closes behind it.
bool cuts_brackets(std::string_view text, size_t at) {
  const size_t begin = at > kMaxBracketBytes ? at - kMaxBracketBytes : 0;
  const std::string_view before = text.substr(begin, at - begin), after = text.substr(at, kMaxBracketBytes);
  const size_t last = before.find_last_of("<>[]");
  if (last == before.npos || before[last] == '>' || before[last] == ']') return false;
  const size_t next = after.find_first_of("<>[]");
  return next != after.npos && after[next] == (before[last] == '<' ? '>' : ']');
}

bool cuts_mark(std::string_view text, size_t at) {
  if (at == 0 || at >= text.size()) return false;
  return (is_in_word(text[at - 1]) && is_in_word(text[at])) || cuts_brackets(text, at);
}

}  // namespace

size_t common_front(std::string_view a, std::string_view b) {
  size_t n = to_size(std::ranges::mismatch(a, b).in1 - a.begin());
  while (cuts_mark(a, n) || cuts_mark(b, n)) --n;
  return n;
}

size_t common_back(std::string_view a, std::string_view b) {
  const size_t n_most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < n_most && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  while (n > 0 && (cuts_mark(a, a.size() - n) || cuts_mark(b, b.size() - n))) --n;
  return n;
}

}  // namespace tessera::text
