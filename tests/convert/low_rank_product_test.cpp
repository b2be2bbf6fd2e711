// Views of a weight that is a product of two small matrices: the elements of the view must be products of the factors
// in the order of their walks. Views that are no product are refused.
#include "tessera/convert/adapter/low_rank_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tessera/convert/source/views.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr int64_t kRows = 4, kColumns = 6, kRank = 2;

// Factors [4, 2] and [2, 6], of which the second is stored transposed.
constexpr std::array<float, 20> kFactors = {1, 2, 3, -4, 5, 6, -7, 8, 1, -1, 2, 3, -5, 7, 4, -2, 9, 6, -3, 5};

LowRankProduct product_of_factors() {
  return {{{.name = "rows", .shape = {kRows, kRank}}, 0},
          {{.name = "columns", .shape = {kColumns, kRank}, .offset = 32}, 0}};
}

StoredTensor whole_weight() { return {.name = "weight", .shape = {kRows, kColumns}}; }

float weight_at(int64_t i) {
  float sum = 0;
  for (int64_t j = 0; j < kRank; ++j)
    sum += kFactors[static_cast<size_t>(i / kColumns * kRank + j)] *
           kFactors[static_cast<size_t>(kRows * kRank + i % kColumns * kRank + j)];
  return sum;
}

std::vector<float> elements_of(const StoredTensor& view, std::span<const float> file) {
  std::vector<float> values(static_cast<size_t>(view.n_elements()));
  view.read(std::as_bytes(file), 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// The elements of the view, and those of the product of its walks, must be the same.
void expect_product(const StoredTensor& view, int64_t n_view_columns) {
  std::vector<float> weight(kRows * kColumns);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = weight_at(static_cast<int64_t>(i));
  const std::vector<float> want = elements_of(view, weight);
  ASSERT_OK_AND_ASSIGN(const auto walks, walks_of_view(view, whole_weight(), n_view_columns));
  const std::vector<float> up = elements_of(walked(product_of_factors(), walks.first, false), kFactors);
  const std::vector<float> down = elements_of(walked(product_of_factors(), walks.second, true), kFactors);
  const auto n_columns = static_cast<size_t>(n_view_columns), rank = static_cast<size_t>(kRank);
  ASSERT_EQ(down.size(), n_columns * rank);
  ASSERT_EQ(up.size() * n_columns, want.size() * rank);
  for (size_t i = 0; i < want.size(); ++i) {
    float sum = 0;
    for (size_t j = 0; j < rank; ++j) sum += up[i / n_columns * rank + j] * down[j * n_columns + i % n_columns];
    EXPECT_EQ(sum, want[i]) << i;
  }
}

TEST(LowRankProduct, ViewsOfRowsAndColumnsAreProducts) {
  const StoredTensor weight = whole_weight();
  expect_product(weight, kColumns);
  expect_product(transposed(weight).value(), kRows);
  expect_product(part_of(weight, 0, 1, 2).value(), kColumns);
  expect_product(part_of(weight, 1, 2, 3).value(), 3);
  expect_product(part_of(transposed(weight).value(), 0, 4, 2).value(), kRows);
  expect_product(rope_pairs_together(weight, 1).value(), kColumns);
  expect_product(part_of(rope_pairs_together(weight, 1).value(), 1, 1, 1).value(), kColumns);
  expect_product(part_of(weight, 0, 3, 1).value(), kColumns);
  expect_product(part_of(weight, 1, 5, 1).value(), 1);
  expect_product(part_of(part_of(weight, 1, 5, 1).value(), 0, 3, 1).value(), 1);
  expect_product(part_of(transposed(weight).value(), 0, 5, 1).value(), kRows);
  constexpr size_t kOrder[] = {0, 2, 1};
  expect_product(with_order(reshaped(weight, {kRows, 2, 3}).value(), kOrder).value(), kColumns);
}

TEST(LowRankProduct, OtherViewsAreRefused) {
  const StoredTensor weight = whole_weight();
  const auto expect_refused = [&](const StoredTensor& view, int64_t n_view_columns) {
    EXPECT_ERROR(walks_of_view(view, weight, n_view_columns), "weight: elements of the weight are in an order");
  };
  expect_refused(reshaped(weight, {kColumns, kRows}).value(), kRows);  // rows that end in other rows
  expect_refused(reshaped(weight, {kRows * kColumns}).value(), kRows * kColumns);
  expect_refused(reshaped(weight, {2, 2, kColumns}).value(), 2 * kColumns);  // one row that is two
  expect_refused(weight, 4);
  expect_refused(weight, 12);
  expect_refused(reshaped(weight, {kRows, 2, 3}).value(), 3);  // rows of halves
  constexpr size_t kOrder[] = {1, 0, 2};
  expect_refused(with_order(reshaped(weight, {kRows, 2, 3}).value(), kOrder).value(), 3);
}

TEST(LowRankProduct, AWalkThatIsTheWholeFactorIsAsItIsStored) {
  ASSERT_OK_AND_ASSIGN(const auto walks, walks_of_view(whole_weight(), whole_weight(), kColumns));
  EXPECT_EQ(walks.first, (FactorWalk{true, 0, {kRows}, {1}}));
  EXPECT_EQ(walks.second, (FactorWalk{false, 0, {kColumns}, {1}}));
  EXPECT_TRUE(walked(product_of_factors(), walks.first, false).strides.empty());
  EXPECT_EQ(walked(product_of_factors(), walks.second, true).strides, (std::vector<int64_t>{1, kRank}));
}

}  // namespace
}  // namespace tessera::convert
