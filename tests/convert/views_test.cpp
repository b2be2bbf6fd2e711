// Views of stored tensors, against copies in memory.
#include "tessera/convert/source/views.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using Shape64 = std::vector<int64_t>;
using Floats = std::vector<float>;

// A tensor of the numbers 0, 1, 2, ... and its file, which begins with three other bytes.
class NumberedTensor {
 public:
  explicit NumberedTensor(Shape64 shape) {
    tensor_ = {.name = "t", .type = ElementType::f32, .shape = std::move(shape), .strides = {}, .offset = 4};
    values_.resize(static_cast<size_t>(tensor_.n_elements()) + 1);
    std::iota(values_.begin() + 1, values_.end(), 0.0f);
  }
  const StoredTensor& tensor() const { return tensor_; }
  Floats read(const StoredTensor& view, int64_t first, int64_t n) const {
    Floats values(static_cast<size_t>(n));
    view.read(std::as_bytes(std::span(values_)), first, std::as_writable_bytes(std::span(values)));
    return values;
  }
  Floats read(const StoredTensor& view) const { return read(view, 0, view.n_elements()); }

 private:
  StoredTensor tensor_;
  Floats values_;
};

TEST(Views, AMatrixIsTransposed) {
  const NumberedTensor numbers({2, 3});
  ASSERT_OK_AND_ASSIGN(const StoredTensor view, transposed(numbers.tensor()));
  EXPECT_EQ(view.shape, (Shape64{3, 2}));
  const Floats all = {0, 3, 1, 4, 2, 5};
  for (int64_t first = 0; first < 6; ++first)
    EXPECT_EQ(numbers.read(view, first, 6 - first), Floats(all.begin() + first, all.end())) << first;
  ASSERT_OK_AND_ASSIGN(const StoredTensor back, transposed(view));
  EXPECT_TRUE(back.strides.empty());
  EXPECT_EQ(numbers.read(back), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_ERROR(transposed(NumberedTensor({6}).tensor()), "t of shape [6] is no matrix");
}

TEST(Views, PartsKeepTheirStrides) {
  const NumberedTensor numbers({3, 4});
  ASSERT_OK_AND_ASSIGN(const StoredTensor rows, part_of(numbers.tensor(), 0, 1, 2));
  EXPECT_TRUE(rows.strides.empty());
  EXPECT_EQ(numbers.read(rows), (Floats{4, 5, 6, 7, 8, 9, 10, 11}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor columns, part_of(numbers.tensor(), 1, 1, 2));
  EXPECT_EQ(numbers.read(columns), (Floats{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(numbers.read(columns, 1, 3), (Floats{2, 5, 6}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor none, part_of(numbers.tensor(), 0, 3, 0));
  EXPECT_EQ(none.n_elements(), 0);
  for (const auto& [dimension, begin, n] : std::vector<std::tuple<size_t, int64_t, int64_t>>{
           {2, 0, 1}, {0, -1, 1}, {0, 0, -1}, {0, 3, 1}, {0, 0, 4}, {0, INT64_MAX, 1}, {0, 1, INT64_MAX}})
    EXPECT_FALSE(part_of(numbers.tensor(), dimension, begin, n)) << dimension << ' ' << begin << ' ' << n;
}

TEST(Views, ShapesAreTakenApartAndTogether) {
  const NumberedTensor numbers({6, 4});
  ASSERT_OK_AND_ASSIGN(const StoredTensor apart, reshaped(numbers.tensor(), {2, 3, 2, 2}));
  EXPECT_TRUE(apart.strides.empty());
  ASSERT_OK_AND_ASSIGN(const StoredTensor columns, part_of(numbers.tensor(), 1, 0, 2));
  ASSERT_OK_AND_ASSIGN(const StoredTensor view, reshaped(columns, {2, 3, 1, 2}));
  EXPECT_EQ(numbers.read(view), numbers.read(columns));
  ASSERT_OK_AND_ASSIGN(const StoredTensor together, reshaped(view, {6, 2}));
  EXPECT_EQ(numbers.read(together), numbers.read(columns));
  EXPECT_EQ(together.strides, columns.strides);
  EXPECT_FALSE(reshaped(columns, {12}));  // the columns left out are between
  EXPECT_FALSE(reshaped(columns, {3, 4}));
  EXPECT_ERROR(reshaped(numbers.tensor(), {5, 5}), "t of shape [6, 4] has no shape [5, 5]");
  EXPECT_FALSE(reshaped(numbers.tensor(), {-6, -4}));
  EXPECT_OK(reshaped(NumberedTensor({0, 3}).tensor(), {7, 0}));
}

TEST(Views, ExtentsOfOneAreLeftOut) {
  const NumberedTensor numbers({2, 1, 3, 1});
  EXPECT_EQ(squeezed(numbers.tensor()).shape, (Shape64{2, 3}));
  EXPECT_EQ(numbers.read(squeezed(numbers.tensor())), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(squeezed(NumberedTensor({1}).tensor()).shape, Shape64{});
}

TEST(Views, OrdersNameEachDimensionOnce) {
  const NumberedTensor numbers({2, 3, 2});
  const size_t order[] = {2, 0, 1};
  ASSERT_OK_AND_ASSIGN(const StoredTensor view, with_order(numbers.tensor(), order));
  EXPECT_EQ(view.shape, (Shape64{2, 2, 3}));
  EXPECT_EQ(numbers.read(view), (Floats{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  for (const std::vector<size_t>& wrong : std::vector<std::vector<size_t>>{{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, 2, 2}})
    EXPECT_FALSE(with_order(numbers.tensor(), wrong));
}

// Views of elements that are computed, as far as they are read.
class DoubledNumbers : public ElementSource {
 public:
  void read(int64_t first, std::span<std::byte> into) const override {
    std::vector<float> values(into.size() / sizeof(float));
    for (float& value : values) value = 2.0f * static_cast<float>(first++);
    std::memcpy(into.data(), values.data(), into.size());
    n_read += values.size();
  }
  void forget(int64_t /*first*/, int64_t /*n*/) const override {}
  mutable size_t n_read = 0;
};

TEST(Views, ComputedElementsHaveTheSameViews) {
  const auto source = std::make_shared<DoubledNumbers>();
  const NumberedTensor none({0});
  StoredTensor tensor{.name = "t", .shape = {3, 4}};
  tensor.elements = source;
  EXPECT_EQ(none.read(tensor), (Floats{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}));
  EXPECT_EQ(none.read(tensor, 5, 2), (Floats{10, 12}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor rows, part_of(tensor, 0, 1, 2));
  EXPECT_EQ(none.read(rows, 1, 3), (Floats{10, 12, 14}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor columns, part_of(rows, 1, 2, 2));
  EXPECT_EQ(none.read(columns), (Floats{12, 14, 20, 22}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor other, transposed(columns));
  source->n_read = 0;
  EXPECT_EQ(none.read(other), (Floats{12, 20, 14, 22}));
  EXPECT_EQ(source->n_read, 4u);
}

// Two heads of four rows: x0 x1 y0 y1 become x0 y0 x1 y1.
TEST(Views, PairsOfRopeComeTogether) {
  const NumberedTensor matrix({8, 2}), bias({8});
  ASSERT_OK_AND_ASSIGN(const StoredTensor rows, rope_pairs_together(matrix.tensor(), 2));
  EXPECT_EQ(matrix.read(rows), (Floats{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  ASSERT_OK_AND_ASSIGN(const StoredTensor values, rope_pairs_together(bias.tensor(), 2));
  EXPECT_EQ(bias.read(values), (Floats{0, 2, 1, 3, 4, 6, 5, 7}));
  for (const int64_t n_heads : {0, -1, 3, 8}) EXPECT_FALSE(rope_pairs_together(matrix.tensor(), n_heads)) << n_heads;
}

}  // namespace
}  // namespace tessera::convert
