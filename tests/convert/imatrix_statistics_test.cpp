#include "tessera/convert/imatrix_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::convert {
namespace {

TEST(ImatrixStatistics, HandCase) {
  Imatrix imatrix;
  imatrix.entries["blk.12.a.weight"] = {.sums = {8, 4, 4, 0}, .counts = {4}};
  imatrix.entries["blk.3.b.weight"] = {.sums = {2, 2, 9, 9}, .counts = {2, 0}};
  imatrix.entries["output.weight"] = {.sums = {1}, .counts = {1}};
  const auto all = statistics_of(imatrix);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].layer, -1);
  EXPECT_EQ(all[1].weight, "blk.3.b.weight");
  EXPECT_EQ(all[1].n_columns, 2u);  // no token has reached the other matrix
  EXPECT_EQ(all[1].sum, 2);
  const ImatrixStatistics& s = all[2];  // means 2, 1, 1, 0
  EXPECT_EQ(s.layer, 12);
  EXPECT_EQ(s.sum, 4);
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.min, 0);
  EXPECT_EQ(s.max, 2);
  EXPECT_NEAR(s.deviation, std::sqrt(0.5), 1e-12);
  EXPECT_EQ(s.active_share, 0.75);
  EXPECT_NEAR(s.entropy, 1.5, 1e-12);  // shares 1/2, 1/4, 1/4
}

TEST(ImatrixStatistics, LayersAreTheSumsOfTheirWeights) {
  Imatrix imatrix;
  imatrix.entries["blk.1.a.weight"] = {.sums = {8, 4, 4, 0}, .counts = {4}};  // means 2, 1, 1, 0
  imatrix.entries["blk.1.b.weight"] = {.sums = {3, 0}, .counts = {1}};
  imatrix.entries["output.weight"] = {.sums = {0}, .counts = {0}};  // no token has reached it
  const auto layers = layers_of(statistics_of(imatrix));
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].layer, -1);
  EXPECT_EQ(layers[0].mean, 0);
  EXPECT_EQ(layers[1].layer, 1);
  EXPECT_EQ(layers[1].n_weights, 2u);
  EXPECT_EQ(layers[1].sum, 7);
  EXPECT_NEAR(layers[1].mean, 7.0 / 6, 1e-12);          // of six columns
  EXPECT_NEAR(layers[1].active_share, 4.0 / 6, 1e-12);  // four of them
}

}  // namespace
}  // namespace tessera::convert
