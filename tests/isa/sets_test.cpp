// Instruction sets by name, and the choice of the default one.
#include "tessera/isa/sets.h"

#include <cstdlib>

#include "tests/support/testing.h"

namespace tessera::isa {
namespace {

TEST(InstructionSets, ScalarIsUsableEverywhereAndTheWorst) { EXPECT_EQ(usable_isas().front(), "scalar"); }

TEST(InstructionSets, UsableOnesAreFoundByNameInTheirOrder) {
  int last = -1;
  for (const std::string& name : usable_isas()) {
    ASSERT_OK_AND_ASSIGN(const size_t row, find_isa(name));
    EXPECT_GT(static_cast<int>(row), last) << name;
    last = static_cast<int>(row);
  }
}

TEST(InstructionSets, UnknownOnesAreErrorsThatListTheUsable) {
  EXPECT_ERROR(find_isa("avx1024"), "instruction set \"avx1024\": unknown");
  EXPECT_ERROR(find_isa(""), "usable: scalar");
}

// A process chooses its instruction set once, so each case runs in a process of its own.
class DefaultSet : public ::testing::Test {
 protected:
  DefaultSet() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void expect_default(const char* wanted, const std::string& name) {
    EXPECT_EXIT(
        {
          setenv("TESSERA_ISA", wanted, 1);
          std::exit(default_isa() == find_isa(name).value() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "")
        << wanted;
  }
};

TEST_F(DefaultSet, IsTheOneThatTheEnvironmentNames) {
  for (const std::string& name : usable_isas()) expect_default(name.c_str(), name);
}

TEST_F(DefaultSet, IsTheBestWhereTheEnvironmentNamesNone) {
  expect_default("", usable_isas().back());
  expect_default("abacus", usable_isas().back());
}

}  // namespace
}  // namespace tessera::isa
