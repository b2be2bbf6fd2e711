#include "tessera/base/result.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/testing.h"

namespace tessera {
namespace {

Result<int> half_of(int x) {
  if (x % 2 != 0) return fail(ErrorCode::invalid_argument, "{} is odd", x);
  return x / 2;
}

Result<int> quarter_of(int x) {
  TESSERA_ASSIGN(const int half, half_of(x));
  return half_of(half);
}

Result<> require_even(int x) {
  TESSERA_TRY(half_of(x));
  return {};
}

TEST(Result, AssignTakesTheValue) { EXPECT_EQ(quarter_of(12).value(), 3); }

TEST(Result, AssignReturnsTheError) {
  EXPECT_ERROR(quarter_of(7), "7 is odd");
  EXPECT_ERROR(quarter_of(6), "3 is odd");
}

TEST(Result, TryPassesOnCodeAndMessage) {
  EXPECT_OK(require_even(4));
  const auto failed = require_even(5);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(failed.error().message(), "5 is odd");
}

TEST(Result, ContextStandsBeforeTheMessage) {
  auto failed = half_of(3);
  const Result<std::string> passed = forward_error(failed, "tensor blk.0");
  ASSERT_FALSE(passed.has_value());
  EXPECT_EQ(passed.error().message(), "tensor blk.0: 3 is odd");
  EXPECT_EQ(passed.error().code(), ErrorCode::invalid_argument);
}

TEST(Result, ForwardedErrorChangesTheValueType) {
  auto failed = half_of(3);
  const Result<std::string> passed = forward_error(failed);
  EXPECT_ERROR(passed, "3 is odd");
}

TEST(Result, AssignMovesValuesThatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    TESSERA_ASSIGN(const std::unique_ptr<int> owned, make());
    return *owned;
  };
  EXPECT_EQ(use().value(), 5);
}

TEST(Result, EveryCodeHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    const std::string_view name = to_string(static_cast<ErrorCode>(code));
    EXPECT_NE(name, "unknown");
    EXPECT_EQ(std::ranges::find(names, name), names.end()) << name;
    names.push_back(name);
  }
}

}  // namespace
}  // namespace tessera
