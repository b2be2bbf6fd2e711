#include "tessera/base/cpu_mask.h"

#include "tests/support/testing.h"

namespace tessera {
namespace {

TEST(CpuMask, HexDigitsCountFromTheRight) {
  for (const char* text : {"F", "f", "0xF", "0Xf", "000F"}) {
    ASSERT_OK_AND_ASSIGN(const CpuMask mask, CpuMask::from_hex(text));
    EXPECT_EQ(mask.cpus(), (std::vector<int>{0, 1, 2, 3})) << text;
  }
  ASSERT_OK_AND_ASSIGN(const CpuMask mask, CpuMask::from_hex("0x80000000000000000000A5"));
  EXPECT_EQ(mask.cpus(), (std::vector<int>{0, 2, 5, 7, 87}));
}

TEST(CpuMask, HexRejectsWhatIsNoMask) {
  EXPECT_ERROR(CpuMask::from_hex(""), "want hex digits");
  EXPECT_ERROR(CpuMask::from_hex("0x"), "want hex digits");
  EXPECT_ERROR(CpuMask::from_hex("12G4"), "character 3 is not a hex digit");
  EXPECT_ERROR(CpuMask::from_hex("-1"), "not a hex digit");
  EXPECT_ERROR(CpuMask::from_hex("0"), "names no CPU");
}

TEST(CpuMask, HexEndsAtTheLastCpu) {
  const std::string zeros(CpuMask::kMaxCpus / 4 - 1, '0');
  ASSERT_OK_AND_ASSIGN(const CpuMask last, CpuMask::from_hex("8" + zeros));
  EXPECT_EQ(last.cpus(), std::vector<int>{CpuMask::kMaxCpus - 1});
  EXPECT_ERROR(CpuMask::from_hex("10" + zeros), "beyond 4095");
  EXPECT_OK(CpuMask::from_hex("00001" + zeros));
}

TEST(CpuMask, ListsOfRanges) {
  const std::pair<const char*, std::vector<int>> cases[] = {
      {"0-3", {0, 1, 2, 3}}, {"5", {5}}, {"-2", {0, 1, 2}}, {"0-1,8,4-5", {0, 1, 4, 5, 8}}, {"7-7", {7}}};
  for (const auto& [text, expected] : cases) {
    ASSERT_OK_AND_ASSIGN(const CpuMask mask, CpuMask::from_list(text));
    EXPECT_EQ(mask.cpus(), expected) << text;
  }
  ASSERT_OK_AND_ASSIGN(const CpuMask open, CpuMask::from_list("4090-"));
  EXPECT_EQ(open.count(), 6);
}

TEST(CpuMask, ListRejectsWhatIsNoList) {
  for (const char* text : {"", "a", "0-3-5", "1,", ",1", "1 ", "--2", "0x3", "1-b", "1,,2"})
    EXPECT_ERROR(CpuMask::from_list(text), "is not a CPU number");
  EXPECT_ERROR(CpuMask::from_list("-"), "'-' without a CPU number");
  EXPECT_ERROR(CpuMask::from_list("3-1"), "3-1 ends before it starts");
  EXPECT_ERROR(CpuMask::from_list("4096"), "CPU 4096, limit 4095");
  EXPECT_ERROR(CpuMask::from_list("0-99999999999999999999"), "limit 4095");
}

TEST(CpuMask, TextReadsBack) {
  EXPECT_EQ(to_string(CpuMask{}), "none");
  for (const char* text : {"0", "0-3", "1,3,5", "0-1,8-11,4095"}) {
    ASSERT_OK_AND_ASSIGN(const CpuMask mask, CpuMask::from_list(text));
    EXPECT_EQ(to_string(mask), text);
  }
}

TEST(CpuMask, IntersectionKeepsCommonCpus) {
  ASSERT_OK_AND_ASSIGN(const CpuMask a, CpuMask::from_list("0-5"));
  ASSERT_OK_AND_ASSIGN(const CpuMask b, CpuMask::from_list("4-9"));
  EXPECT_EQ((a & b).cpus(), (std::vector<int>{4, 5}));
}

TEST(CpuMask, ContainsIsFalseOutOfRange) {
  EXPECT_FALSE(CpuMask{}.contains(-1));
  EXPECT_FALSE(CpuMask{}.contains(CpuMask::kMaxCpus));
}

TEST(CpuMask, ThreadAffinityRoundTrips) {
  const CpuMask before = thread_affinity();
  ASSERT_FALSE(before.empty());
  CpuMask one;
  one.add(before.cpus().back());
  ASSERT_OK(set_thread_affinity(one));
  EXPECT_EQ(thread_affinity(), one);
  ASSERT_OK(set_thread_affinity(before));
  EXPECT_EQ(thread_affinity(), before);
}

TEST(CpuMask, AffinityToAnAbsentCpuIsRefused) {
  CpuMask far;
  far.add(CpuMask::kMaxCpus - 1);
  EXPECT_ERROR(set_thread_affinity(far), "cannot run on CPUs 4095");
}

}  // namespace
}  // namespace tessera
