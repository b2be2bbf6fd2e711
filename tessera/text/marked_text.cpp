#include "tessera/text/marked_text.h"

#include <algorithm>

namespace tessera::text {

std::span<const ByteRange> MarkedView::given_within(size_t begin, size_t end) const {
  const auto first = std::ranges::upper_bound(given, begin, {}, &ByteRange::end);
  const auto last = std::ranges::lower_bound(given, end, {}, &ByteRange::begin);
  return first < last ? std::span(first, last) : std::span<const ByteRange>();
}

bool MarkedTextBuilder::fits(size_t n_bytes) {
  overflowed_ = overflowed_ || n_bytes > kMaxBytes - text_.text.size();
  return !overflowed_;
}

void MarkedTextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!text_.given.empty() && text_.given.back().end == begin) {
    text_.given.back().end = end;
  } else {
    text_.given.push_back({begin, end});
  }
}

void MarkedTextBuilder::append(std::string_view bytes, Origin origin) {
  if (!fits(bytes.size())) return;
  const size_t begin = text_.text.size();
  text_.text += bytes;
  if (origin == Origin::given) mark(begin, text_.text.size());
}

void MarkedTextBuilder::append_slice(const MarkedView& text, size_t begin, size_t end) {
  if (!fits(end - begin)) return;
  const size_t shift = text_.text.size();
  text_.text += text.bytes.substr(begin, end - begin);
  for (const ByteRange& range : text.given_within(begin, end)) {
    const ByteRange part = clip(range, begin, end);
    mark(shift + part.begin, shift + part.end);
  }
}

void MarkedTextBuilder::append_repeated(size_t count, char byte) {
  if (fits(count)) text_.text.append(count, byte);
}

}  // namespace tessera::text
