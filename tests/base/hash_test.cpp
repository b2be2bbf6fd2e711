#include "tessera/base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

namespace tessera {
namespace {

uint64_t hash_of(std::string_view text) { return Hash64().add(text).value(); }

TEST(Hash, ValuesAreStable) {
  // Files contain these hashes, so they must never change. Computed independently with Python integers.
  EXPECT_EQ(Hash64().value(), 0x2180a92350d49cceu);
  EXPECT_EQ(hash_of(""), 0xf9d92b85cff70f1au);
  EXPECT_EQ(hash_of("tessera"), 0x542f811c1aa5c4beu);
  EXPECT_EQ(hash_of("0123456789abcdef"), 0x7db75569274c3357u);
  EXPECT_EQ(Hash64().add(1).value(), 0x7014e768c4ab9d5bu);
}

TEST(Hash, EveryBitOfTheInputChangesHalfTheOutput) {
  std::string text(40, 'x');
  const uint64_t before = hash_of(text);
  int n_changed = 0;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    n_changed += std::popcount(before ^ hash_of(text));
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  }
  // 320 flips of 64 output bits: for independent bits the mean is 10240 and the deviation 72. Ten deviations.
  EXPECT_NEAR(n_changed, 10240, 720);
}

TEST(Hash, TrailingZerosCount) {
  std::set<uint64_t> values;
  for (size_t n = 0; n < 100; ++n) values.insert(hash_of(std::string(n, '\0')));
  EXPECT_EQ(values.size(), 100u);
}

TEST(Hash, BoundariesOfPartsCount) {
  EXPECT_NE(Hash64().add("ab").add("c").value(), Hash64().add("a").add("bc").value());
  EXPECT_NE(Hash64().add("a").add("").value(), Hash64().add("a").value());
}

TEST(Hash, OrderCounts) {
  EXPECT_NE(Hash64().add(1).add(2).value(), Hash64().add(2).add(1).value());
  EXPECT_NE(hash_of("aaaaaaaabbbbbbbb"), hash_of("bbbbbbbbaaaaaaaa"));
}

TEST(Hash, SmallNumbersDoNotCollide) {
  std::set<uint64_t> values;
  for (uint64_t i = 0; i < 100000; ++i) values.insert(Hash64().add(i).value());
  EXPECT_EQ(values.size(), 100000u);
}

}  // namespace
}  // namespace tessera
