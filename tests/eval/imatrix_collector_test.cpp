#include "tessera/eval/imatrix_collector.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace tessera::eval {
namespace {

using convert::Imatrix;

TEST(ImatrixCollector, RefusesAnotherNumberOfColumns) {
  Imatrix imatrix;
  ImatrixCollector collector(imatrix, ImatrixCollector::Output::skip);
  collector.observe("blk.0.a.weight", std::vector<float>{1, 2}, 3);
  collector.observe("output.weight", std::vector<float>{1, 2}, 3);
  collector.observe("blk.0.a.weight", std::vector<float>{10, 20}, 4);
  EXPECT_OK(collector.status());
  EXPECT_EQ(imatrix.entries.size(), 1u);
  EXPECT_EQ(imatrix.entries.at("blk.0.a.weight").sums, (std::vector<double>{11, 22}));
  EXPECT_EQ(imatrix.entries.at("blk.0.a.weight").counts, (std::vector<double>{7}));
  collector.observe("blk.0.a.weight", std::vector<float>{1, 2, 3}, 3);
  EXPECT_ERROR(collector.status(), "blk.0.a.weight: 3 columns, but 2 in 1 matrices");
}

// A term far below the sum's f32 spacing still counts.
TEST(ImatrixCollector, AddsInDoublePrecision) {
  Imatrix imatrix;
  ImatrixCollector collector(imatrix, ImatrixCollector::Output::skip);
  collector.observe("blk.0.a.weight", std::vector<float>{1e9f}, 1);
  for (int i = 0; i < 1000; ++i) collector.observe("blk.0.a.weight", std::vector<float>{1.0f}, 1);
  EXPECT_EQ(imatrix.entries.at("blk.0.a.weight").sums[0], 1e9 + 1000);
}

}  // namespace
}  // namespace tessera::eval
