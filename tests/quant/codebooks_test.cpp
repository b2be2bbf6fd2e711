// The generated tables against their source numbers.
#include "tessera/quant/codebooks.h"

#include <gtest/gtest.h>

#include <bit>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace books = quant::codebooks;

/// Reads the numbers of a file of spec/iq_tables, whose first line is a comment.
std::vector<uint64_t> numbers_in(const std::string& path) {
  std::istringstream in(testing::read_all(path));
  std::string word;
  std::getline(in, word);
  std::vector<uint64_t> numbers;
  while (in >> word) {
    const bool is_negative = word.front() == '-';
    const uint64_t magnitude = std::stoull(is_negative ? word.substr(1) : word, nullptr, 0);
    numbers.push_back(is_negative ? 0 - magnitude : magnitude);
  }
  return numbers;
}

template <class T, size_t kCount>
void expect_equal(const std::string& name, const T (&table)[kCount]) {
  TESSERA_SHARED_OR_SKIP(path, "spec/iq_tables/" + name + ".txt");
  const std::vector<uint64_t> want = numbers_in(path);
  ASSERT_EQ(want.size(), kCount) << name;
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(static_cast<T>(want[i]), table[i]) << name << " " << i;
}

TEST(Codebooks, Iq2xxs) { expect_equal("iq2xxs_grid", books::kIq2xxs); }
TEST(Codebooks, Iq2xs) { expect_equal("iq2xs_grid", books::kIq2xs); }
TEST(Codebooks, Iq2s) { expect_equal("iq2s_grid", books::kIq2s); }
TEST(Codebooks, Iq3xxs) { expect_equal("iq3xxs_grid", books::kIq3xxs); }
TEST(Codebooks, Iq3s) { expect_equal("iq3s_grid", books::kIq3s); }
TEST(Codebooks, Iq1s) { expect_equal("iq1s_grid", books::kIq1s); }
TEST(Codebooks, Signs) { expect_equal("ksigns_iq2xs", books::kSigns); }
TEST(Codebooks, Iq4nl) { expect_equal("kvalues_iq4nl", books::kIq4nl); }
TEST(Codebooks, E2m1Doubled) { expect_equal("kvalues_fp4", books::kE2m1Doubled); }

TEST(Codebooks, SignBytesHaveEvenParity) {
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT_EQ(books::kSigns[i] & 127u, i);
    EXPECT_EQ(std::popcount(uint32_t{books::kSigns[i]}) % 2, 0);
  }
}

}  // namespace
}  // namespace tessera
