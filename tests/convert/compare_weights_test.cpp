// Comparisons of weights: files with themselves, with changed values, with other types, and tensors without a
// counterpart.
#include "tessera/convert/compare_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/convert/conversion.h"
#include "tests/convert/hub_folder.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr float kInfiniteWeight = std::numeric_limits<float>::infinity();

Result<std::vector<WeightDifference>> compare_paths(const std::string& first, const std::string& second,
                                                    WeightNames names, int n_threads = 2) {
  TESSERA_ASSIGN(const auto a, open_weights(first, names));
  TESSERA_ASSIGN(const auto b, open_weights(second, names));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
  return compare_weights(*a, *b, {*threads, nullptr, [](float) { return true; }});
}

// Two folders with a tensor of the same name each.
struct TwoTensors {
  std::vector<float> first, second;
  std::vector<int64_t> first_shape{}, second_shape{};

  Result<WeightDifference> compare(int n_threads = 2) const {
    const auto folder = [](const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape) {
      if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
      HubFolder hub{.config = "{}"};
      hub.tensors.push_back({"w", "F32", shape, hub_bytes(values, "F32")});
      return hub.write(name);
    };
    TESSERA_ASSIGN(const auto rows,
                   compare_paths(folder("first", first, first_shape), folder("second", second, second_shape),
                                 WeightNames::stored, n_threads));
    return rows.at(0);
  }
};

TEST(CompareWeights, CountsAndMeasuresDifferences) {
  ASSERT_OK_AND_ASSIGN(const auto row, (TwoTensors{{1, 2, -2, 4}, {1, 2.5, -2, 3}}.compare()));
  EXPECT_TRUE(row.is_compared);
  EXPECT_FALSE(row.is_equal());
  EXPECT_EQ(row.n_values, 4);
  EXPECT_EQ(row.n_different, 2);
  EXPECT_DOUBLE_EQ(row.nmse, 1.25 / 25);
  EXPECT_DOUBLE_EQ(row.largest, 1);
  EXPECT_EQ(row.first_type, "F32");
  EXPECT_EQ(row.first_shape, (std::vector<int64_t>{4}));
}

TEST(CompareWeights, ValuesThatAreNotFinite) {
  const float nan = std::nanf("");
  ASSERT_OK_AND_ASSIGN(const auto same, (TwoTensors{{nan, kInfiniteWeight, 1}, {nan, kInfiniteWeight, 1}}.compare()));
  EXPECT_TRUE(same.is_equal());
  EXPECT_EQ(same.nmse, 0);
  for (const float other : {nan, kInfiniteWeight}) {
    ASSERT_OK_AND_ASSIGN(const auto row, (TwoTensors{{3, 1}, {other, 1}}.compare()));
    EXPECT_EQ(row.n_different, 1);
    EXPECT_TRUE(std::isinf(row.nmse) && std::isinf(row.largest));
    ASSERT_OK_AND_ASSIGN(const auto reverse, (TwoTensors{{other, 1}, {3, 1}}.compare()));
    EXPECT_TRUE(std::isinf(reverse.nmse) && std::isinf(reverse.largest));
  }
  ASSERT_OK_AND_ASSIGN(const auto zero, (TwoTensors{{0, 0}, {0, 1}}.compare()));
  EXPECT_TRUE(std::isinf(zero.nmse));
  EXPECT_EQ(zero.largest, 1);
}

TEST(CompareWeights, ShapesMayDifferInExtentsOfOneOnly) {
  ASSERT_OK_AND_ASSIGN(const auto same, (TwoTensors{{1, 2}, {1, 2}, {1, 2, 1}, {2}}.compare()));
  EXPECT_TRUE(same.is_equal());
  ASSERT_OK_AND_ASSIGN(const auto other, (TwoTensors{{1, 2, 3, 4}, {1, 2, 3, 4}, {2, 2}, {4}}.compare()));
  EXPECT_FALSE(other.is_compared);
  EXPECT_FALSE(other.is_equal());
  EXPECT_EQ(other.first_shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(other.second_shape, (std::vector<int64_t>{4}));
}

// More values than a piece has; the sums are those of one thread.
TEST(CompareWeights, ThreadsDoNotChangeTheResult) {
  Rng rng(3);
  TwoTensors tensors;
  for (int i = 0; i < 600'001; ++i) {
    tensors.first.push_back(rng.next_float(-1, 1));
    tensors.second.push_back(tensors.first.back() + rng.next_float(-1e-3f, 1e-3f));
  }
  tensors.second.back() = 9;
  ASSERT_OK_AND_ASSIGN(const auto one, tensors.compare(1));
  ASSERT_OK_AND_ASSIGN(const auto three, tensors.compare(3));
  EXPECT_EQ(one.nmse, three.nmse);
  EXPECT_EQ(one.n_different, three.n_different);
  EXPECT_GT(one.n_different, 590'000);
  EXPECT_GT(one.largest, 8);
  EXPECT_EQ(one.largest, three.largest);
}

TEST(CompareWeights, TensorsWithoutACounterpart) {
  HubFolder first{.config = "{}"}, second{.config = "{}"};
  first.add("both", {4});
  first.add("only first", {2});
  second.add("both", {4});
  second.add("only second", {3});
  ASSERT_OK_AND_ASSIGN(const auto rows,
                       compare_paths(first.write("first"), second.write("second"), WeightNames::stored));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].is_equal());
  EXPECT_EQ(rows[1].name, "only first");
  EXPECT_EQ(rows[1].second_type, "");
  EXPECT_EQ(rows[2].name, "only second");
  EXPECT_EQ(rows[2].first_type, "");
  EXPECT_EQ(rows[2].second_shape, (std::vector<int64_t>{3}));
}

// A checkpoint beside the files that it becomes.
TEST(CompareWeights, ACheckpointAndItsConversions) {
  const std::string folder = hub_llama().write("hub");
  for (const auto& [type, most] : {std::pair{FileType::f32, 0.0}, {FileType::bf16, 0.0}, {FileType::q8_0, 1e-4}}) {
    ASSERT_OK_AND_ASSIGN(const auto conversion, Conversion::open(folder, type));
    QuantizeOptions options;
    options.mix.file_type = type;
    conversion->apply_to(options);
    ASSERT_OK_AND_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
    ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 1}));
    const std::string path = temporary_path("compared.gguf");
    ASSERT_OK(
        write_quantized(conversion->files(), plan, options, path, {*threads, nullptr, [](float) { return true; }}));
    ASSERT_OK_AND_ASSIGN(const auto rows, compare_paths(folder, path, WeightNames::converted));
    EXPECT_EQ(rows.size(), conversion->files().tensors().size());
    double largest = 0;
    for (const WeightDifference& row : rows) {
      EXPECT_TRUE(row.is_compared) << row.name;
      largest = std::max(largest, row.nmse);
    }
    EXPECT_LE(largest, most);
    EXPECT_EQ(largest > 0, most > 0);
  }
}

TEST(CompareWeights, IntegersOfFiles) {
  const auto write = [](const std::string& name, const std::vector<int32_t>& numbers) {
    GgufBuilder builder;
    EXPECT_OK(builder.add_tensor("ids.weight", DType::i32, {std::ssize(numbers)}, 1));
    const std::string path = temporary_path(name);
    auto writer = GgufWriter::create(path, builder).value();
    EXPECT_OK(writer.append(std::as_bytes(std::span(numbers))));
    EXPECT_OK(writer.finish());
    return path;
  };
  const std::string first = write("first.gguf", {7, 0, 383}), second = write("second.gguf", {7, 1, 383});
  ASSERT_OK_AND_ASSIGN(const auto same, compare_paths(first, first, WeightNames::stored));
  EXPECT_TRUE(same.at(0).is_equal());
  ASSERT_OK_AND_ASSIGN(const auto other, compare_paths(first, second, WeightNames::stored));
  EXPECT_EQ(other.at(0).n_different, 1);
  EXPECT_EQ(other.at(0).largest, 1);
}

TEST(CompareWeights, CanBeCancelled) {
  const std::string folder = hub_llama().write("hub");
  ASSERT_OK_AND_ASSIGN(const auto weights, open_weights(folder, WeightNames::stored));
  ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 1}));
  CancelToken cancel;
  cancel.cancel();
  EXPECT_ERROR(compare_weights(*weights, *weights, {*threads, &cancel, [](float) { return true; }}), "cancelled");
  EXPECT_ERROR(compare_weights(*weights, *weights, {*threads, nullptr, [](float) { return false; }}), "cancelled");
}

}  // namespace
}  // namespace tessera::convert
