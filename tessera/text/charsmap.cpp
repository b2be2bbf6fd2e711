// Layout of a unit of the double array: bits 0 to 7 and 31 are its label, and bit 8 is set if a value is below it. Bits
// 10 to 30 are the offset of its children, times 256 if bit 9 is set. In a value unit, bits 0 to 30 are the value.
#include "tessera/text/charsmap.h"

#include <algorithm>

namespace tessera::text {
namespace {

constexpr uint32_t kLabel = 0x800000FF;
constexpr uint32_t kHasLeaf = 0x100;
constexpr uint32_t kWide = 0x200;
constexpr uint32_t kValue = 0x7FFFFFFF;

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & kWide) != 0 ? 8 : 0); }

uint32_t read_u32(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

}  // namespace

Result<Charsmap> Charsmap::create(std::span<const uint8_t> blob) {
  Charsmap map;
  if (blob.empty()) return map;
  const size_t n_trie = blob.size() < 4 ? 0 : read_u32(blob);
  if (blob.size() < 4 || n_trie % 4 != 0 || n_trie > blob.size() - 4)
    return fail(ErrorCode::format, "tokenizer.ggml.precompiled_charsmap: {} bytes with a trie of {}", blob.size(),
                n_trie);
  for (size_t at = 4; at < 4 + n_trie; at += 4) map.trie_.push_back(read_u32(blob.subspan(at, 4)));
  const auto strings = blob.subspan(4 + n_trie);
  map.strings_.assign(strings.begin(), strings.end());
  return map;
}

Charsmap::Replacement Charsmap::find(std::string_view text) const {
  Replacement best{0, {}};
  if (trie_.empty()) return best;
  uint32_t at = offset_of(trie_[0]);
  for (size_t i = 0; i < std::min(text.size(), kMaxReplacedBytes); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= trie_.size() || (trie_[at] & kLabel) != byte) break;
    const uint32_t unit = trie_[at];
    at ^= offset_of(unit);
    if ((unit & kHasLeaf) == 0) continue;
    if (at >= trie_.size()) break;
    const uint32_t value = trie_[at] & kValue;
    const size_t end = value < strings_.size() ? strings_.find('\0', value) : std::string::npos;
    if (end == std::string::npos) break;
    best = {i + 1, std::string_view(strings_).substr(value, end - value)};
  }
  return best;
}

}  // namespace tessera::text
