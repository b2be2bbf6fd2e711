#include "tessera/tensor/shape.h"

#include <algorithm>

#include "tessera/base/rng.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr int64_t kMax = INT64_MAX;

// Products of four extents below 2^63 overflow even 128 bits, so the reference stops when it exceeds 2^63.
std::optional<int64_t> product(std::initializer_list<int64_t> factors) {
  __int128 p = 1;
  for (const int64_t factor : factors) {
    p *= factor;
    if (p > kMax) return std::nullopt;
  }
  return static_cast<int64_t>(p);
}

std::optional<size_t> expected_nbytes(DType dtype, const Shape& s) {
  const DTypeInfo& row = info(dtype);
  if (std::ranges::any_of(s.ne, [](int64_t extent) { return extent < 0; })) return std::nullopt;
  if (s[0] % row.block_elements != 0) return std::nullopt;
  const auto one = [](int64_t extent) { return std::max<int64_t>(extent, 1); };
  const auto elements = product({one(s[0]), one(s[1]), one(s[2]), one(s[3])});
  const auto bytes = product({one(s[0] / row.block_elements), row.block_bytes, one(s[1]), one(s[2]), one(s[3])});
  if (!elements || !bytes) return std::nullopt;
  return s.empty() ? 0 : static_cast<size_t>(*bytes);
}

int64_t random_extent(Rng& rng, int64_t block) {
  // Small, near a power of two up to 2^62, or an edge case; mostly whole blocks.
  switch (rng.next_u32() % 8) {
    case 0:
      return 0;
    case 1:
      return -static_cast<int64_t>(rng.next_u32() % 3);
    case 2:
      return kMax - static_cast<int64_t>(rng.next_u32() % 3);
    case 3:
      return (int64_t{1} << (rng.next_u32() % 63)) + static_cast<int64_t>(rng.next_u32() % 3) - 1;
    case 4:
      return int64_t{1} << (rng.next_u32() % 63);
    default:
      return block * static_cast<int64_t>(rng.next_u32() % 100);
  }
}

TEST(Shape, NbytesAgreesWithWideIntegersOnRandomShapes) {
  Rng rng(1);
  int n_fitting = 0, n_refused = 0;
  for (int i = 0; i < 200000; ++i) {
    const DTypeInfo& row = all_dtypes()[rng.next_u32() % all_dtypes().size()];
    Shape shape;
    for (int d = 0; d < kMaxRank; ++d) shape[d] = random_extent(rng, d == 0 ? row.block_elements : 1);
    const auto expected = expected_nbytes(row.dtype, shape);
    const auto actual = nbytes(row.dtype, shape);
    ASSERT_EQ(actual.has_value(), expected.has_value()) << to_string(shape) << " " << row.name;
    if (expected) {
      ASSERT_EQ(*actual, *expected) << to_string(shape) << " " << row.name;
    }
    ++(expected ? n_fitting : n_refused);
  }
  EXPECT_GT(n_fitting, 10000);
  EXPECT_GT(n_refused, 10000);
}

TEST(Shape, CheckedShapesHaveSafeCountsAndStrides) {
  // Under the undefined-behaviour sanitizer, any overflow in these calls stops the test.
  Rng rng(2);
  for (int i = 0; i < 100000; ++i) {
    const DTypeInfo& row = all_dtypes()[rng.next_u32() % all_dtypes().size()];
    Shape shape;
    for (int d = 0; d < kMaxRank; ++d) shape[d] = random_extent(rng, d == 0 ? row.block_elements : 1);
    const auto layout = contiguous_layout(row.dtype, shape);
    if (!layout) continue;
    EXPECT_GE(shape.n_rows(), 0);
    EXPECT_TRUE(is_contiguous(row.dtype, *layout)) << to_string(shape) << " " << row.name;
    ASSERT_EQ(span_bytes(row.dtype, *layout), nbytes(row.dtype, shape).value()) << to_string(shape) << " " << row.name;
  }
}

TEST(Shape, NbytesOfKnownTensors) {
  EXPECT_EQ(nbytes(DType::f32, {64, 512}).value(), 131072u);
  EXPECT_EQ(nbytes(DType::q4_0, {4096, 4096}).value(), 9437184u);
  EXPECT_EQ(nbytes(DType::q6_k, {256, 3, 2}).value(), 1260u);
  EXPECT_EQ(nbytes(DType::f16, {}).value(), 2u);
  EXPECT_EQ(nbytes(DType::f32, {0, 5}).value(), 0u);
}

TEST(Shape, ErrorsNameWhatIsWrong) {
  EXPECT_ERROR(nbytes(DType::q4_0, {33}), "row of 33 elements: q4_0 needs a multiple of 32");
  EXPECT_ERROR(nbytes(DType::f32, {-1}), "row of -1 elements: want at least 0");
  EXPECT_ERROR(nbytes(DType::f32, {1, 1, -7}), "extent -7 of dimension 2");
  EXPECT_ERROR(nbytes(DType::f32, {kMax}), "size overflows");
  EXPECT_ERROR(nbytes(DType::i8, {1ll << 32, 1ll << 31}), "shape [4294967296, 2147483648]: more than 2^63");
}

TEST(Shape, LargestSizesFit) {
  EXPECT_EQ(nbytes(DType::i8, {kMax}).value(), static_cast<size_t>(kMax));
  EXPECT_EQ(nbytes(DType::i8, {1, 1, 1, kMax}).value(), static_cast<size_t>(kMax));
  EXPECT_ERROR(nbytes(DType::i16, {1, 1, 1, kMax}), "more than 2^63");
}

TEST(Shape, EmptyExtentHidesNoOverflow) {
  EXPECT_ERROR(nbytes(DType::f32, {0, 1ll << 40, 1ll << 40}), "more than 2^63");
  EXPECT_ERROR(nbytes(DType::f32, {1ll << 40, 1ll << 40, 0}), "more than 2^63");
  EXPECT_OK(nbytes(DType::f32, {0, 1ll << 40}));
}

TEST(Shape, TextLeavesOutTrailingOnes) {
  EXPECT_EQ(to_string(Shape{64, 512}), "[64, 512]");
  EXPECT_EQ(to_string(Shape{}), "[1]");
  EXPECT_EQ(to_string(Shape{1, 1, 3}), "[1, 1, 3]");
  EXPECT_EQ(to_string(Shape{2, 1, 1, 0}), "[2, 1, 1, 0]");
}

TEST(Layout, ContiguousStridesAreProducts) {
  EXPECT_EQ(contiguous_layout(DType::f16, {8, 3, 5, 2})->nb, (std::array<int64_t, 4>{2, 16, 48, 240}));
  EXPECT_EQ(contiguous_layout(DType::q8_0, {64, 3})->nb, (std::array<int64_t, 4>{34, 68, 204, 204}));
}

TEST(Layout, PermutedViewIsNotContiguous) {
  Layout layout = contiguous_layout(DType::f32, {4, 6}).value();
  std::swap(layout.shape[0], layout.shape[1]);
  std::swap(layout.nb[0], layout.nb[1]);
  EXPECT_FALSE(is_contiguous(DType::f32, layout));
  EXPECT_FALSE(has_contiguous_rows(DType::f32, layout));
  EXPECT_EQ(span_bytes(DType::f32, layout), 96u);
}

TEST(Layout, RowsOfASliceAreContiguousButTheWholeIsNot) {
  Layout layout = contiguous_layout(DType::f32, {8, 5}).value();
  layout.shape[0] = 4;  // the first half of each row
  EXPECT_TRUE(has_contiguous_rows(DType::f32, layout));
  EXPECT_FALSE(is_contiguous(DType::f32, layout));
  EXPECT_EQ(span_bytes(DType::f32, layout), 4u * 32 + 16);
}

TEST(Layout, ExtentsOfOneMayHaveAnyStride) {
  Layout layout = contiguous_layout(DType::f32, {4, 1, 3}).value();
  layout.nb[1] = 9999;
  EXPECT_TRUE(is_contiguous(DType::f32, layout));
  EXPECT_EQ(span_bytes(DType::f32, layout), 48u);
}

TEST(Layout, SpanOfBroadcastStridesIsOneRow) {
  Layout layout = contiguous_layout(DType::f32, {4, 3}).value();
  layout.nb[1] = 0;
  EXPECT_EQ(span_bytes(DType::f32, layout), 16u);
}

}  // namespace
}  // namespace tessera
