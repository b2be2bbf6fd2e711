#include "tessera/base/cancel.h"

#include <signal.h>

#include <gtest/gtest.h>

namespace tessera {
namespace {

CancelToken g_token;  // a signal handler has no other way to reach it

TEST(CancelToken, IsUsableAgainAfterReset) {
  CancelToken token;
  EXPECT_FALSE(token.cancelled());
  token.cancel();
  token.cancel();
  EXPECT_TRUE(token.cancelled());
  token.reset();
  EXPECT_FALSE(token.cancelled());
}

TEST(CancelToken, CancelsFromASignalHandler) {
  const auto old_handler = ::signal(SIGUSR1, [](int) { g_token.cancel(); });
  ASSERT_EQ(::raise(SIGUSR1), 0);
  ::signal(SIGUSR1, old_handler);
  EXPECT_TRUE(g_token.cancelled());
}

}  // namespace
}  // namespace tessera
