// Rows of converted tensors: ranges across parts, types, changes of values, blocks.
#include "tessera/convert/converted_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "tessera/base/half.h"
#include "tessera/convert/torch_exp.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// Elements are 0, 1, 2 ... in the order of the file.
HubFolder counted_folder(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  HubFolder folder{.config = "{}"};
  float next = 0;
  for (const auto& [name, shape] : tensors) {
    folder.add(name, shape, "F32");
    std::vector<float> values(folder.tensors.back().bytes.size() / 4);
    for (float& value : values) value = next++;
    folder.tensors.back().bytes = hub_bytes(values, "F32");
  }
  return folder;
}

ConvertedTensor tensor_of_parts(const Checkpoint& checkpoint, const std::vector<std::string>& names,
                                std::vector<int64_t> shape, ValueChange change = ValueChange::none) {
  ConvertedTensor tensor{.name = "t", .shape = std::move(shape), .values = change};
  for (const std::string& name : names) {
    const CheckpointTensor* part = checkpoint.find(name);
    tensor.parts.push_back({part->file, part->tensor});
  }
  return tensor;
}

std::vector<float> read_floats(const ConvertedRows& rows, const GgufTensor& tensor, int64_t begin, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n * tensor.shape[0]));
  rows.read(tensor, begin, n, std::as_writable_bytes(std::span(values)));
  rows.forget(tensor, begin, n);
  return values;
}

TEST(ConvertedRows, RowsCrossParts) {
  const Checkpoint checkpoint =
      Checkpoint::open(counted_folder({{"a", {3, 2}}, {"b", {1, 2}}, {"c", {2, 2}}}).write("parts")).value();
  const ConvertedRows rows(checkpoint, {tensor_of_parts(checkpoint, {"c", "a", "b"}, {6, 2})});
  const GgufTensor tensor{.name = "t", .dtype = DType::f32, .shape = {2, 6}};
  EXPECT_EQ(read_floats(rows, tensor, 0, 6), (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(read_floats(rows, tensor, 1, 2), (std::vector<float>{10, 11, 0, 1}));
  EXPECT_EQ(read_floats(rows, tensor, 2, 3), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_floats(rows, tensor, 5, 1), (std::vector<float>{6, 7}));
  EXPECT_EQ(read_floats(rows, tensor, 0, 6), (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(ConvertedRows, ValuesChangeInFloats) {
  HubFolder folder{.config = "{}"};
  folder.tensors = {{"a", "BF16", {3}, hub_bytes({0.5f, -2.0f, 1.3671875f}, "BF16")}};
  const Checkpoint checkpoint = Checkpoint::open(folder.write("changes")).value();
  const GgufTensor tensor{.name = "t", .dtype = DType::f32, .shape = {3}};
  const ConvertedRows more(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {3}, ValueChange::add_one)});
  EXPECT_EQ(read_floats(more, tensor, 0, 1), (std::vector<float>{1.5f, -1.0f, 2.3671875f}));
  const ConvertedRows decay(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {3}, ValueChange::minus_exp)});
  EXPECT_EQ(read_floats(decay, tensor, 0, 1),
            (std::vector<float>{-torch_exp(0.5f), -torch_exp(-2.0f), -torch_exp(1.3671875f)}));
}

TEST(ConvertedRows, IntegersBecomeThoseOf32Bits) {
  HubFolder folder{.config = "{}"};
  std::string bytes;
  for (const int64_t number : {int64_t{7}, int64_t{0}, int64_t{383}, int64_t{1} << 40}) bytes += number_bytes(number);
  folder.tensors = {{"a", "I64", {2, 2}, bytes}};
  const Checkpoint checkpoint = Checkpoint::open(folder.write("integers")).value();
  const ConvertedRows rows(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {2, 2}, ValueChange::integers)});
  std::vector<int32_t> numbers(4);
  rows.read({.name = "t", .dtype = DType::i32, .shape = {2, 2}}, 0, 2, std::as_writable_bytes(std::span(numbers)));
  EXPECT_EQ(numbers, (std::vector<int32_t>{7, 0, 383, 1 << 24}));
}

// Tensors of several pieces of 8192 values.
TEST(ConvertedRows, LongRowsAreConvertedInPieces) {
  const int64_t n = 20000;
  const Checkpoint checkpoint = Checkpoint::open(counted_folder({{"a", {2, n}}}).write("long")).value();
  const ConvertedRows rows(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {2, n}, ValueChange::add_one)});
  const GgufTensor tensor{.name = "t", .dtype = DType::f32, .shape = {n, 2}};
  const std::vector<float> values = read_floats(rows, tensor, 1, 1);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<float>(n + i + 1));
}

TEST(ConvertedRows, TypesOf16BitsRoundToTheNearest) {
  HubFolder folder{.config = "{}"};
  const std::vector<float> values = {1.00390625f, 1.01171875f, 65519.0f, 65520.0f, INFINITY, -70000.0f};
  folder.tensors = {{"a", "F32", {6}, hub_bytes(values, "F32")}};
  const Checkpoint checkpoint = Checkpoint::open(folder.write("round")).value();
  const ConvertedRows rows(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {6})});
  std::vector<uint16_t> halves(6);
  rows.read({.name = "t", .dtype = DType::bf16, .shape = {6}}, 0, 1, std::as_writable_bytes(std::span(halves)));
  EXPECT_EQ(halves[0], 0x3f80);  // half way: even
  EXPECT_EQ(halves[1], 0x3f82);
  EXPECT_EQ(rows.n_overflows(), 0u);
  rows.read({.name = "t", .dtype = DType::f16, .shape = {6}}, 0, 1, std::as_writable_bytes(std::span(halves)));
  EXPECT_EQ(halves[2], 0x7bff);
  EXPECT_EQ(halves[3], 0x7c00);
  EXPECT_EQ(halves[5], 0xfc00);
  EXPECT_EQ(rows.n_overflows(), 2u);  // infinity was infinite before
}

TEST(ConvertedRows, ComputedTensorsHaveNoParts) {
  const Checkpoint checkpoint = Checkpoint::open(counted_folder({{"a", {1}}}).write("computed")).value();
  const ConvertedRows rows(checkpoint, {computed_tensor("t", {1.0f, 2.0f, 3.0f})});
  EXPECT_EQ(read_floats(rows, {.name = "t", .dtype = DType::f32, .shape = {3}}, 0, 1), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read_floats(rows, {.name = "t", .dtype = DType::f32, .shape = {1, 3}}, 1, 2), (std::vector<float>{2, 3}));
}

// Rows of two parts, of another type, with other values, in another order, and of no file.
TEST(ConvertedRows, RowsThatAFileHasAreKnown) {
  const Checkpoint checkpoint =
      Checkpoint::open(counted_folder({{"a", {3, 2}}, {"b", {2, 2}}}).write("stored")).value();
  const ConvertedRows rows(checkpoint, {tensor_of_parts(checkpoint, {"b", "a"}, {5, 2})});
  const GgufTensor tensor{.name = "t", .dtype = DType::f32, .shape = {2, 5}};
  const uint64_t a = checkpoint.find("a")->tensor.offset, b = checkpoint.find("b")->tensor.offset;
  const std::vector<FileRange> ranges = rows.stored(tensor, 1, 3);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].file->path(), checkpoint.paths()[0]);
  EXPECT_EQ(ranges[0].offset, b + 8);
  EXPECT_EQ(ranges[0].n_bytes, 8u);
  EXPECT_EQ(ranges[1].offset, a);
  EXPECT_EQ(ranges[1].n_bytes, 16u);
  EXPECT_TRUE(rows.stored({.name = "t", .dtype = DType::bf16, .shape = {2, 5}}, 1, 3).empty());
  const ConvertedRows changed(checkpoint, {tensor_of_parts(checkpoint, {"a"}, {3, 2}, ValueChange::add_one)});
  EXPECT_TRUE(changed.stored({.name = "t", .dtype = DType::f32, .shape = {2, 3}}, 0, 3).empty());
  ConvertedTensor turned = tensor_of_parts(checkpoint, {"a"}, {2, 3});
  turned.parts[0].view.shape = {2, 3};
  turned.parts[0].view.strides = {1, 2};
  const ConvertedRows columns(checkpoint, {turned});
  EXPECT_TRUE(columns.stored({.name = "t", .dtype = DType::f32, .shape = {3, 2}}, 0, 2).empty());
  const ConvertedRows computed(checkpoint, {computed_tensor("t", {1.0f})});
  EXPECT_TRUE(computed.stored({.name = "t", .dtype = DType::f32, .shape = {1}}, 0, 1).empty());
}

TEST(ConvertedRows, TypesOfTheSameBytes) {
  EXPECT_EQ(same_type_in_gguf(ElementType::f32), DType::f32);
  EXPECT_EQ(same_type_in_gguf(ElementType::f16), DType::f16);
  EXPECT_EQ(same_type_in_gguf(ElementType::bf16), DType::bf16);
  for (const ElementType type : {ElementType::f64, ElementType::i32, ElementType::i8, ElementType::f8_e4m3})
    EXPECT_EQ(same_type_in_gguf(type), std::nullopt) << element_name(type);
}

TEST(TorchExp, IsWithinAUnitOfTheLastPlace) {
  for (float x = -79.0f; x < 79.0f; x += 0.173f) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(torch_exp(x), exact, 1.2e-7 * exact) << x;
  }
  EXPECT_EQ(torch_exp(0.0f), 1.0f);
  EXPECT_EQ(torch_exp(INFINITY), INFINITY);
  EXPECT_EQ(torch_exp(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(torch_exp(NAN)));
  // Two values that PyTorch rounds to the neighbour of the nearest float.
  EXPECT_EQ(torch_exp(0x1.76p+0f), 0x1.13d704p+2f);
  EXPECT_EQ(torch_exp(0x1.e8p+0f), 0x1.ae9478p+2f);
}

}  // namespace
}  // namespace tessera::convert
