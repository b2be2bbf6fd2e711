#include "tessera/text/grammar/utf8_expression.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

constexpr uint32_t kLastCodePoint = 0x10ffff;
constexpr uint32_t kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff;
constexpr std::array<uint32_t, 4> kLastOfLength = {0x7f, 0x7ff, 0xffff, kLastCodePoint};  // by bytes, from 1
constexpr uint32_t kContinuationBits = 6;
constexpr uint8_t kFirstContinuation = 0x80, kLastContinuation = 0xbf;

uint8_t lead_byte(uint32_t code_point, size_t n_bytes) {
  constexpr std::array<uint32_t, 4> kMarks = {0, 0xc0, 0xe0, 0xf0};
  return static_cast<uint8_t>(kMarks[n_bytes - 1] | (code_point >> (kContinuationBits * (n_bytes - 1))));
}

// Code points of one number of bytes.
class RangeWriter {
 public:
  explicit RangeWriter(ExpressionArena& arena) : arena_(arena) {}

  /// Texts of n_bytes bytes, the last ones of longer texts unless is_lead.
  Expression write(uint32_t first, uint32_t last, size_t n_bytes, bool is_lead) {
    const auto byte_at = [&](uint32_t code_point) {
      if (is_lead) return lead_byte(code_point, n_bytes);
      const uint32_t bits = code_point >> (kContinuationBits * (n_bytes - 1));
      return static_cast<uint8_t>(kFirstContinuation | (bits & 0x3f));
    };
    if (n_bytes == 1) return arena_.bytes(ByteSet::range(byte_at(first), byte_at(last)));
    const uint32_t span = uint32_t{1} << (kContinuationBits * (n_bytes - 1));  // code points with the same first byte
    const uint32_t first_block = first / span, last_block = last / span;
    const auto rest = [&](uint32_t from, uint32_t to) { return write(from, to, n_bytes - 1, false); };
    const auto one = [&](uint32_t code_point, Expression then) {
      return arena_.concat(arena_.bytes(ByteSet::of(byte_at(code_point))), then);
    };
    if (first_block == last_block) return one(first, rest(first, last));
    std::vector<Expression> found;
    uint32_t whole_first = first_block, whole_last = last_block;
    if (first % span != 0) found.push_back(one(first, rest(first, ++whole_first * span - 1)));
    if ((last + 1) % span != 0) found.push_back(one(last, rest(whole_last-- * span, last)));
    if (whole_first <= whole_last) {
      const auto leads = ByteSet::range(byte_at(whole_first * span), byte_at(whole_last * span));
      found.push_back(arena_.concat(arena_.bytes(leads), rest(0, span - 1)));
    }
    return arena_.any_of(std::move(found));
  }

 private:
  ExpressionArena& arena_;
};

}  // namespace

Expression utf8_of(ExpressionArena& arena, const CodePointSet& set) {
  RangeWriter writer(arena);
  std::vector<Expression> found;
  const CodePointSet encoded = set.intersection(all_code_points());
  for (const CodePointRange& range : encoded.ranges()) {
    uint32_t first = range.first;
    for (size_t n_bytes = 1; n_bytes <= kLastOfLength.size() && first <= range.last; ++n_bytes) {
      const uint32_t last = std::min(range.last, kLastOfLength[n_bytes - 1]);
      if (first > last) continue;
      found.push_back(writer.write(first, last, n_bytes, true));
      first = last + 1;
    }
  }
  return arena.any_of(std::move(found));
}

CodePointSet all_code_points() {
  constexpr CodePointRange kRanges[] = {{0, kFirstSurrogate - 1}, {kLastSurrogate + 1, kLastCodePoint}};
  return CodePointSet(kRanges);
}

}  // namespace tessera::text::grammar
