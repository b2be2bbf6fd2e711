// Views whose rows are columns of the file are read tile by tile: the elements are those of reads one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "tessera/base/index.h"
#include "tessera/base/rng.h"
#include "tessera/convert/converted_rows.h"
#include "tessera/convert/source/views.h"
#include "tests/convert/hub_folder.h"

namespace tessera::convert {
namespace {

using namespace testing;

std::vector<std::byte> random_bytes(size_t n) {
  Rng rng(n);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next_u32());
  return bytes;
}

// Elements [first, first + n) of a view, by the definition of strides.
std::vector<std::byte> strided_elements(const StoredTensor& view, std::span<const std::byte> file, int64_t first,
                                        int64_t n) {
  const size_t width = element_bytes(view.type);
  std::vector<std::byte> bytes;
  for (int64_t i = first; i < first + n; ++i) {
    int64_t rest = i, element = 0;
    for (size_t d = view.shape.size(); d-- > 0; rest /= view.shape[d])
      element += rest % view.shape[d] * view.strides[d];
    const auto from = file.subspan(view.offset + to_size(element) * width, width);
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  return bytes;
}

class CopiedElements : public ElementSource {
 public:
  explicit CopiedElements(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void read(int64_t first, std::span<std::byte> into) const override {
    ++n_reads;
    std::memcpy(into.data(), bytes_.data() + first * 4, into.size());
  }
  void forget(int64_t /*first*/, int64_t /*n*/) const override {}
  mutable int n_reads = 0;

 private:
  std::span<const std::byte> bytes_;
};

// Shapes around the extents of tiles, in every order, read from any element to any other.
TEST(ColumnViews, HaveTheElementsOfTheirStrides) {
  const std::vector<int64_t> shapes[] = {{33, 70}, {64, 32}, {2, 31, 65}, {5, 3, 7, 4}, {1, 40, 1, 33}, {100, 1, 2}};
  constexpr ElementType kTypes[] = {ElementType::u8, ElementType::bf16, ElementType::f32, ElementType::f64};
  for (const auto& shape : shapes)
    for (const ElementType type : kTypes) {
      std::vector<size_t> order(shape.size());
      std::iota(order.begin(), order.end(), size_t{0});
      StoredTensor tensor{.name = "a", .type = type, .shape = shape, .offset = 24};
      const int64_t n = tensor.n_elements();
      const auto file = random_bytes(24 + to_size(n) * element_bytes(type));
      do {
        const StoredTensor view = with_order(tensor, order).value();
        if (view.strides.empty()) continue;
        std::vector<std::byte> all(to_size(n) * element_bytes(type));
        view.read(file, 0, all);
        ASSERT_EQ(all, strided_elements(view, file, 0, n));
        for (int64_t first = 1; first < n; first += n / 5 + 1) {
          const int64_t n_some = std::max<int64_t>(1, n - first - first % 3);
          std::vector<std::byte> some(to_size(n_some) * element_bytes(type));
          view.read(file, first, some);
          ASSERT_EQ(some, strided_elements(view, file, first, n_some));
        }
      } while (std::ranges::next_permutation(order).found);
    }
}

TEST(ColumnViews, AreThoseOfTransposedMatrices) {
  const StoredTensor tensor{.name = "a", .shape = {6, 4}};
  EXPECT_FALSE(tensor.is_by_columns());
  EXPECT_TRUE(transposed(tensor)->is_by_columns());
  EXPECT_FALSE(part_of(tensor, 1, 1, 2)->is_by_columns());
  EXPECT_FALSE(part_of(*transposed(tensor), 1, 2, 1)->is_by_columns());  // one column: its elements are a run
  EXPECT_FALSE(part_of(tensor, 1, 2, 1)->is_by_columns());               // no elements one after another
  EXPECT_TRUE(reshaped(*transposed(tensor), {4, 6, 1})->is_by_columns());
  EXPECT_FALSE(rope_pairs_together({.name = "a", .shape = {8, 4}}, 2)->is_by_columns());
  const StoredTensor blocks{.name = "a", .type = ElementType::mxfp4, .shape = {6, 4}};
  EXPECT_FALSE(transposed(blocks)->is_by_columns());
}

// 32 rows of 40 elements are read with one call for each column.
TEST(ColumnViews, ComputedElementsAreReadByColumns) {
  const auto bytes = random_bytes(40 * 33 * 4);
  const auto source = std::make_shared<CopiedElements>(bytes);
  const StoredTensor view =
      transposed({.name = "a", .type = ElementType::f32, .shape = {40, 33}, .elements = source}).value();
  std::vector<std::byte> rows(32 * 40 * 4);
  view.read({}, 0, rows);
  EXPECT_EQ(source->n_reads, 40);
  EXPECT_EQ(rows, strided_elements(view, bytes, 0, 32 * 40));
}

// Rows that are converted are read at once too, also rows of more than the 8192 values that are converted at once.
TEST(ColumnViews, RowsAreConvertedInTheirOrder) {
  constexpr int64_t kColumns = 9000, kRows = 3;
  HubFolder folder{.config = "{}"};
  folder.add("a", {kColumns, kRows}, "F32");
  folder.add("b", {kRows, kColumns}, "F32");
  std::vector<float> values(kColumns * kRows);
  std::iota(values.begin(), values.end(), 0.0f);
  folder.find("a").bytes = hub_bytes(values, "F32");
  const Checkpoint checkpoint = Checkpoint::open(folder.write("columns")).value();
  const CheckpointTensor &a = *checkpoint.find("a"), &b = *checkpoint.find("b");
  const ConvertedRows rows(checkpoint, {{.name = "t",
                                         .shape = {kRows, kColumns},
                                         .parts = {{a.file, transposed(a.tensor).value()}},
                                         .values = ValueChange::add_one},
                                        {.name = "u", .shape = {kRows, kColumns}, .parts = {{b.file, b.tensor}}}});
  const GgufTensor tensor{.name = "t", .dtype = DType::f32, .shape = {kColumns, kRows}};
  EXPECT_EQ(rows.rows_at_once(tensor), 32);
  EXPECT_EQ(rows.rows_at_once({.name = "u", .dtype = DType::f32, .shape = {kColumns, kRows}}), 1);
  std::vector<float> read(2 * kColumns);
  rows.read(tensor, 1, 2, std::as_writable_bytes(std::span(read)));
  for (int64_t i = 0; i < 2 * kColumns; ++i)
    ASSERT_EQ(read[to_size(i)], static_cast<float>(i % kColumns * kRows + 1 + i / kColumns) + 1.0f) << i;
}

}  // namespace
}  // namespace tessera::convert
