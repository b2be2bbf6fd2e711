#include "tessera/batch/batch.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Batch, APromptWantsTheLogitsOfItsLastTokenOnly) {
  const std::vector<int32_t> tokens{5, 6, 7};
  const Batch batch = Batch::prompt(tokens, 10, 2);
  ASSERT_EQ(batch.size(), 3);
  EXPECT_EQ(batch.n_outputs(), 1);
  for (int i = 0; i < 3; ++i) {
    const BatchToken& t = batch.tokens()[static_cast<size_t>(i)];
    EXPECT_EQ(t.token, 5 + i);
    EXPECT_EQ(t.position, 10 + i);
    EXPECT_EQ(t.sequence, 2);
    EXPECT_EQ(t.wants_logits, i == 2);
  }
}

TEST(Batch, AnEmptyPromptIsAnEmptyBatch) {
  EXPECT_EQ(Batch::prompt({}, 0, 0).size(), 0);
  EXPECT_TRUE(split(Batch(), 4).empty());
}

TEST(Split, PartsFollowOneAnotherAndHoldAtMostUbatchTokens) {
  for (int n = 1; n < 20; ++n)
    for (int n_ubatch = 1; n_ubatch < 25; ++n_ubatch) {
      Batch batch;
      for (int i = 0; i < n; ++i) batch.add({.token = i});
      int64_t next = 0;
      for (const Range& part : split(batch, n_ubatch)) {
        ASSERT_EQ(part.begin, next);
        ASSERT_GT(part.size(), 0);
        ASSERT_LE(part.size(), n_ubatch);
        ASSERT_TRUE(part.size() == n_ubatch || part.end == n);  // only the last part may be shorter
        next = part.end;
      }
      ASSERT_EQ(next, n);
    }
}

}  // namespace
}  // namespace tessera
