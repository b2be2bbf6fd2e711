#include "tessera/base/function_ref.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

int call(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRef, CallsALambdaWithItsState) {
  int n_calls = 0;
  EXPECT_EQ(call([&](int x) { return x + ++n_calls; }, 10), 11);
  EXPECT_EQ(n_calls, 1);
}

TEST(FunctionRef, CallsTheOriginalAndNotACopy) {
  auto counter = [n = 0](int) mutable { return ++n; };
  const FunctionRef<int(int)> f = counter;
  EXPECT_EQ(f(0), 1);
  EXPECT_EQ(f(0), 2);
  EXPECT_EQ(counter(0), 3);
}

TEST(FunctionRef, CallsConstObjects) {
  const auto twice = [](int x) { return 2 * x; };
  EXPECT_EQ(call(twice, 4), 8);
}

TEST(FunctionRef, PassesReferencesAndMoves) {
  const auto append = [](std::string& to, std::string&& what) { to += std::move(what); };
  const FunctionRef<void(std::string&, std::string &&)> f = append;
  std::string text = "a";
  f(text, "b");
  EXPECT_EQ(text, "ab");
}

TEST(FunctionRef, CopiesReferToTheSameCallable) {
  int n = 0;
  auto count = [&] { ++n; };
  const FunctionRef<void()> a = count;
  const FunctionRef<void()> b = a;  // NOLINT(performance-unnecessary-copy-initialization)
  a();
  b();
  EXPECT_EQ(n, 2);
}

}  // namespace
}  // namespace tessera
