#include "tessera/base/partition.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Partition, PartsCoverAllItemsInOrderWithoutOverlap) {
  for (int64_t n_items = 0; n_items < 130; ++n_items) {
    for (int64_t n_parts = 1; n_parts < 40; ++n_parts) {
      int64_t covered = 0;
      for (int64_t i = 0; i < n_parts; ++i) {
        const Range part = partition(n_items, n_parts, i);
        ASSERT_EQ(part.begin, covered) << n_items << " items, part " << i << " of " << n_parts;
        ASSERT_GE(part.size(), n_items / n_parts);
        ASSERT_LE(part.size(), n_items / n_parts + 1);
        ASSERT_EQ(part.empty(), part.size() == 0);
        covered = part.end;
      }
      ASSERT_EQ(covered, n_items);
    }
  }
}

TEST(Partition, LargestCountsDoNotOverflow) {
  const Range last = partition(INT64_MAX, 512, 511);
  EXPECT_EQ(last.end, INT64_MAX);
  EXPECT_EQ(partition(INT64_MAX, 1, 0).size(), INT64_MAX);
}

}  // namespace
}  // namespace tessera
