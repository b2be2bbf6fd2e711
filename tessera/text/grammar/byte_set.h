// Sets of bytes, and the division of all bytes into classes that no set of a collection tells apart.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::text::grammar {

class ByteSet {
 public:
  constexpr ByteSet() = default;

  static constexpr ByteSet range(uint8_t first, uint8_t last) {
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.add(static_cast<uint8_t>(byte));
    return set;
  }
  static constexpr ByteSet of(uint8_t byte) { return range(byte, byte); }

  constexpr void add(uint8_t byte) { words_[byte / 64] |= uint64_t{1} << (byte % 64); }
  constexpr bool contains(uint8_t byte) const { return ((words_[byte / 64] >> (byte % 64)) & 1) != 0; }

  /// Byte i is bit i % 64 of word i / 64.
  constexpr const std::array<uint64_t, 4>& words() const { return words_; }

  constexpr bool is_empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr int size() const {
    int n = 0;
    for (const uint64_t word : words_) n += std::popcount(word);
    return n;
  }
  /// The smallest byte of a set that is not empty.
  constexpr uint8_t first() const {
    size_t i = 0;
    while (words_[i] == 0) ++i;
    return static_cast<uint8_t>(i * 64 + static_cast<size_t>(std::countr_zero(words_[i])));
  }

  /// Calls f(byte) for each byte in ascending order.
  template <class F>
  constexpr void for_each(F f) const {
    for (size_t i = 0; i < words_.size(); ++i)
      for (uint64_t word = words_[i]; word != 0; word &= word - 1)
        f(static_cast<uint8_t>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
  }

  constexpr ByteSet operator|(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < words_.size(); ++i) set.words_[i] = words_[i] | other.words_[i];
    return set;
  }
  constexpr ByteSet operator&(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < words_.size(); ++i) set.words_[i] = words_[i] & other.words_[i];
    return set;
  }
  constexpr ByteSet without(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < words_.size(); ++i) set.words_[i] = words_[i] & ~other.words_[i];
    return set;
  }
  constexpr auto operator<=>(const ByteSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

/// All bytes as sets that have no byte in common, at first as one set.
class ByteDivision {
 public:
  ByteDivision() : classes_{ByteSet::range(0, 255)} {}

  /// Divides the classes that have bytes inside and outside the set.
  void divide(const ByteSet& set);

  const std::vector<ByteSet>& classes() const { return classes_; }

 private:
  std::vector<ByteSet> classes_;
};

}  // namespace tessera::text::grammar
