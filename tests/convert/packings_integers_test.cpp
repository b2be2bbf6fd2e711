// Integers of a few bits in words: gptq, awq, pack-quantized, bitnet. The words are made bit by bit.
#include <gtest/gtest.h>

#include "tessera/base/half.h"
#include "tests/convert/packings_support.h"

namespace tessera::convert {
namespace {

using namespace testing;

uint32_t integer_at(int64_t row, int64_t column, int bits) {
  return static_cast<uint32_t>(row * 7 + column * 3 + row * column) % (1u << bits);
}
uint32_t zero_at(int64_t row, int64_t group, int bits) {
  return static_cast<uint32_t>(row * 5 + group * 3 + 1) % (1u << bits);
}
float group_scale(int64_t row, int64_t group) {
  return 0.25f * static_cast<float>(row % 16 - 4) + static_cast<float>(group);
}

SmallTensor words_part(const std::string& name, int64_t n_rows, const std::vector<uint32_t>& words) {
  return {.name = name,
          .type = "I32",
          .shape = {n_rows, n_rows == 0 ? 0 : std::ssize(words) / n_rows},
          .bytes = vector_bytes(words)};
}

// Scales of groups, in rows of the matrix or, exchanged, in its columns.
SmallTensor scales_part(const std::string& name, int64_t n_rows, int64_t n_groups, bool is_exchanged) {
  std::vector<uint16_t> halves;
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t group = 0; group < n_groups; ++group) halves.push_back(f32_to_f16(group_scale(row, group)));
  if (is_exchanged) halves = exchanged(halves, to_size(n_rows));
  return {.name = name,
          .type = "F16",
          .shape = is_exchanged ? std::vector{n_groups, n_rows} : std::vector{n_rows, n_groups},
          .bytes = vector_bytes(halves)};
}

struct MatrixOfGroups {
  int64_t n_rows, n_columns, n_groups;
  int bits;
};

// GPTQ: words along the columns of each row, then exchanged; words of zeros along the rows.
std::vector<SmallTensor> gptq_parts(const MatrixOfGroups& matrix, const std::vector<int32_t>& groups = {}) {
  const auto& [n_rows, n_columns, n_groups, bits] = matrix;
  std::vector<uint32_t> words, zero_words;
  for (int64_t row = 0; row < n_rows; ++row) {
    std::vector<uint32_t> integers;
    for (int64_t column = 0; column < n_columns; ++column) integers.push_back(integer_at(row, column, bits));
    const auto packed = packed_words(integers, bits, true);
    words.insert(words.end(), packed.begin(), packed.end());
  }
  for (int64_t group = 0; group < n_groups; ++group) {
    std::vector<uint32_t> zeros;
    for (int64_t row = 0; row < n_rows; ++row) zeros.push_back(zero_at(row, group, bits));
    const auto packed = packed_words(zeros, bits, true);
    zero_words.insert(zero_words.end(), packed.begin(), packed.end());
  }
  std::vector<SmallTensor> parts = {words_part("a.qweight", n_columns * bits / 32, exchanged(words, to_size(n_rows))),
                                    words_part("a.qzeros", n_groups, zero_words),
                                    scales_part("a.scales", n_rows, n_groups, true)};
  if (!groups.empty())
    parts.push_back({.name = "a.g_idx", .type = "I32", .shape = {n_columns}, .bytes = vector_bytes(groups)});
  return parts;
}

std::string gptq_config(int bits, int64_t group_size, const std::string& format = "gptq") {
  return fmt::format(R"({{"quant_method":"gptq","bits":{},"group_size":{},"checkpoint_format":"{}"}})", bits,
                     group_size, format);
}

TEST(Gptq, AllNumbersOfBitsWithAndWithoutTheShiftOfZeros) {
  for (const int bits : {2, 3, 4, 8})
    for (const bool is_shifted : {true, false}) {
      SCOPED_TRACE(bits);
      const auto checkpoint =
          open_packed(gptq_parts({32, 64, 2, bits}), gptq_config(bits, 32, is_shifted ? "gptq" : "gptq_v2"));
      expect_matrix(checkpoint, "a.weight", 32, 64, [&](int64_t row, int64_t column) {
        const int64_t group = column / 32;
        const auto zero = static_cast<float>(zero_at(row, group, bits)) + (is_shifted ? 1.0f : 0.0f);
        return (static_cast<float>(integer_at(row, column, bits)) - zero) * group_scale(row, group);
      });
      EXPECT_EQ(checkpoint->tensors().size(), 1u);
    }
}

TEST(Gptq, ColumnsNameTheirGroupsInAnyOrder) {
  std::vector<int32_t> groups;
  for (int i = 0; i < 64; ++i) groups.push_back(i * 5 % 3);
  const auto checkpoint = open_packed(gptq_parts({32, 64, 3, 4}, groups), gptq_config(4, 32));
  expect_matrix(checkpoint, "a.weight", 32, 64, [&](int64_t row, int64_t column) {
    const int64_t group = groups[to_size(column)];
    return (static_cast<float>(integer_at(row, column, 4)) - static_cast<float>(zero_at(row, group, 4)) - 1.0f) *
           group_scale(row, group);
  });
}

// More rows than are decoded at once, and groups in their usual order.
TEST(Gptq, ManyRows) {
  std::vector<int32_t> groups(16, 0);
  groups.resize(32, 1);
  const auto value_at = [](int64_t row, int64_t column) {
    const int64_t group = column / 16;
    return (static_cast<float>(integer_at(row, column, 4)) - static_cast<float>(zero_at(row, group, 4)) - 1.0f) *
           group_scale(row, group);
  };
  expect_matrix(open_packed(gptq_parts({136, 32, 2, 4}, groups), gptq_config(4, 16)), "a.weight", 136, 32, value_at);
  expect_matrix(open_packed(gptq_parts({136, 32, 2, 4}), gptq_config(4, 16)), "a.weight", 136, 32, value_at);
}

TEST(Gptq, OneGroupForAllColumns) {
  const auto checkpoint = open_packed(gptq_parts({8, 32, 1, 4}), gptq_config(4, -1));
  expect_matrix(checkpoint, "a.weight", 8, 32, [&](int64_t row, int64_t column) {
    return (static_cast<float>(integer_at(row, column, 4)) - static_cast<float>(zero_at(row, 0, 4)) - 1.0f) *
           group_scale(row, 0);
  });
}

TEST(Gptq, PartsThatDoNotFitAreRefused) {
  const std::vector<SmallTensor> parts = gptq_parts({8, 32, 2, 4});
  const std::string config = gptq_config(4, 16);
  const auto refusal = [&](size_t changed, const SmallTensor& part) {
    std::vector<SmallTensor> other = parts;
    other[changed] = part;
    return packed_refusal(other, config);
  };
  const auto of_type = [](SmallTensor part, const std::string& type) {
    part.type = type;
    return part;
  };
  const auto of_shape = [](SmallTensor part, const std::vector<int64_t>& shape) {
    part.shape = shape;
    return part;
  };
  EXPECT_EQ(packed_refusal(parts, config), "read");
  EXPECT_EQ(packed_refusal({parts[0], parts[2]}, config), R"(: no tensor "a.qzeros")");
  EXPECT_EQ(packed_refusal({parts[0], parts[1]}, config), R"(: no tensor "a.scales")");
  EXPECT_EQ(refusal(0, of_type(parts[0], "F32")), R"(: tensor "a.qweight": elements of type F32, want I32)");
  EXPECT_EQ(refusal(0, of_shape(parts[0], {32})), R"(: tensor "a.qweight": shape [32], want 2 dimensions)");
  EXPECT_EQ(refusal(1, of_type(parts[1], "F32")), R"(: tensor "a.qzeros": elements of type F32, want I32)");
  EXPECT_EQ(refusal(1, of_shape(parts[1], {1, 2})), R"(: tensor "a.qzeros": shape [1, 2], want [2, 1])");
  EXPECT_EQ(refusal(2, of_type(parts[2], "I16")),
            R"(: tensor "a.scales": elements of type I16, want F32, F16 or BF16)");
  EXPECT_EQ(refusal(2, of_shape(parts[2], {16})), R"(: tensor "a.scales": shape [16], want 2 dimensions)");
  EXPECT_EQ(refusal(2, of_shape(parts[2], {4, 4})), R"(: tensor "a.scales": shape [4, 4], want [4, 8])");
  EXPECT_EQ(packed_refusal(gptq_parts({8, 32, 2, 4}), gptq_config(4, 8)),
            R"(: tensor "a.scales": shape [2, 8], want [4, 8])");
  EXPECT_EQ(packed_refusal(parts, gptq_config(3, 16)),
            R"(: tensor "a.qweight": 4 rows of words, want a multiple of 3)");
  std::vector<int32_t> groups(32, 1);
  EXPECT_EQ(packed_refusal(gptq_parts({8, 32, 2, 4}, groups), config), "read");
  groups[5] = 2;
  EXPECT_EQ(packed_refusal(gptq_parts({8, 32, 2, 4}, groups), config),
            R"(: tensor "a.g_idx": column 5 is in group 2, of 2)");
  groups[5] = -1;
  EXPECT_EQ(packed_refusal(gptq_parts({8, 32, 2, 4}, groups), config),
            R"(: tensor "a.g_idx": column 5 is in group -1, of 2)");
  std::vector<SmallTensor> indexed = gptq_parts({8, 32, 2, 4}, groups);
  indexed[3].type = "F32";
  EXPECT_EQ(packed_refusal(indexed, config), R"(: tensor "a.g_idx": elements of type F32, want I32)");
  indexed[3] = {.name = "a.g_idx", .type = "I32", .shape = {1}, .bytes = "1234"};
  EXPECT_EQ(packed_refusal(indexed, config), R"(: tensor "a.g_idx": shape [1], want [32])");
}

TEST(Gptq, HugeMatricesWithoutElementsAreRefused) {
  const int64_t n_rows = int64_t{1} << 62;
  EXPECT_EQ(
      packed_refusal(
          {{"a.qweight", "I32", {n_rows, 0}, ""}, {"a.qzeros", "I32", {1, 0}, ""}, {"a.scales", "F16", {1, 0}, ""}},
          gptq_config(4, -1)),
      R"(: tensor "a.qweight": more than 2^63 columns)");
  EXPECT_EQ(packed_refusal({{"a.weight", "U8", {n_rows, 0}, ""}, {"a.weight_scale", "F32", {1}, "1234"}},
                           R"({"quant_method":"bitnet"})"),
            R"(: tensor "a.weight": more than 2^63 elements)");
}

// Eight rows of a column in a word: place i of the word has row kAwqRows[i].
constexpr int kAwqRows[] = {0, 2, 4, 6, 1, 3, 5, 7};

template <class At>
SmallTensor awq_words(const std::string& name, int64_t n_rows, int64_t n_columns, const At& at) {
  std::vector<uint32_t> words;
  for (int64_t column = 0; column < n_columns; ++column)
    for (int64_t row = 0; row < n_rows; row += 8) {
      uint32_t word = 0;
      for (int i = 0; i < 8; ++i) word |= at(row + kAwqRows[i], column) << (4 * i);
      words.push_back(word);
    }
  return words_part(name, n_columns, words);
}

std::vector<SmallTensor> awq_parts() {
  return {awq_words("a.qweight", 16, 12, [](int64_t row, int64_t column) { return integer_at(row, column, 4); }),
          awq_words("a.qzeros", 16, 3, [](int64_t row, int64_t group) { return zero_at(row, group, 4); }),
          scales_part("a.scales", 16, 3, true)};
}

constexpr std::string_view kAwqConfig = R"({"quant_method":"awq","bits":4,"group_size":4,"version":"GEMM"})";

TEST(Awq, WordsHoldEightRowsInAnOrderOfTheirOwn) {
  const auto value_at = [](int64_t row, int64_t column) {
    const int64_t group = column / 4;
    return (static_cast<float>(integer_at(row, column, 4)) - static_cast<float>(zero_at(row, group, 4))) *
           group_scale(row, group);
  };
  expect_matrix(open_packed(awq_parts(), kAwqConfig), "a.weight", 16, 12, value_at);
  expect_matrix(open_packed(awq_parts(), R"({"quant_method":"awq","w_bit":4,"q_group_size":4})"), "a.weight", 16, 12,
                value_at);
}

TEST(Awq, PartsThatDoNotFitAreRefused) {
  const auto refusal = [](size_t changed, const std::string& type, const std::vector<int64_t>& shape) {
    std::vector<SmallTensor> parts = awq_parts();
    parts[changed].type = type;
    parts[changed].shape = shape;
    return packed_refusal(parts, kAwqConfig);
  };
  const std::string fit = " does not fit weights of shape [12, 2] and groups of 4";
  EXPECT_EQ(refusal(0, "F32", {12, 2}), R"(: tensor "a.qweight": elements of type F32, want I32)");
  EXPECT_EQ(refusal(0, "I32", {24}), R"(: tensor "a.qweight": shape [24], want 2 dimensions)");
  EXPECT_EQ(refusal(1, "F32", {3, 2}), R"(: tensor "a.qzeros": elements of type F32, want I32)");
  EXPECT_EQ(refusal(1, "I32", {2, 3}), R"(: tensor "a.qzeros": shape [2, 3], want [3, 2])");
  EXPECT_EQ(refusal(2, "I16", {3, 16}), R"(: tensor "a.scales": elements of type I16, want F32, F16 or BF16)");
  EXPECT_EQ(refusal(2, "F16", {48}), R"(: tensor "a.scales": shape [48], want 2 dimensions)");
  EXPECT_EQ(refusal(2, "F16", {4, 12}), R"(: tensor "a.scales": shape [4, 12])" + fit);
  EXPECT_EQ(refusal(2, "F16", {2, 24}), R"(: tensor "a.scales": shape [2, 24])" + fit);
  std::vector<SmallTensor> parts = awq_parts();
  parts[2] = scales_part("a.scales", 16, 2, true);
  EXPECT_EQ(packed_refusal(parts, kAwqConfig), R"(: tensor "a.scales": shape [2, 16])" + fit);
}

constexpr std::string_view kPackConfig =
    R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{
  "a":{"weights":{"num_bits":8,"group_size":4}},"b":{"weights":{"num_bits":4,"group_size":8}},
  "c":{"weights":{"num_bits":3,"group_size":null}},"d":{"weights":null}}})";

// Words along the columns of each row; zeros along the rows of each group.
std::vector<SmallTensor> compressed_parts(const MatrixOfGroups& matrix, bool has_zeros) {
  const auto& [n_rows, n_columns, n_groups, bits] = matrix;
  std::vector<uint32_t> words, zero_words;
  for (int64_t row = 0; row < n_rows; ++row) {
    std::vector<uint32_t> integers;
    for (int64_t column = 0; column < n_columns; ++column) integers.push_back(integer_at(row, column, bits));
    const auto packed = packed_words(integers, bits, false);
    words.insert(words.end(), packed.begin(), packed.end());
  }
  for (int64_t group = 0; group < n_groups; ++group) {
    std::vector<uint32_t> zeros;
    for (int64_t row = 0; row < n_rows; ++row) zeros.push_back(zero_at(row, group, bits));
    const auto packed = packed_words(zeros, bits, false);
    zero_words.insert(zero_words.end(), packed.begin(), packed.end());
  }
  std::vector<SmallTensor> parts = {
      words_part("a.weight_packed", n_rows, words),
      scales_part("a.weight_scale", n_rows, n_groups, false),
      {.name = "a.weight_shape", .type = "I64", .shape = {2}, .bytes = vector_bytes(std::vector{n_rows, n_columns})}};
  if (has_zeros) {
    const auto rows = exchanged(zero_words, to_size(n_groups));
    parts.push_back(words_part("a.weight_zero_point", std::ssize(rows) / n_groups, rows));
  }
  return parts;
}

TEST(PackedIntegers, BitsAndGroupsAreThoseThatFitTheShapes) {
  for (const MatrixOfGroups& matrix : {MatrixOfGroups{5, 12, 3, 8}, {9, 20, 3, 4}, {12, 23, 1, 3}})
    for (const bool has_zeros : {false, true}) {
      SCOPED_TRACE(matrix.bits);
      const auto checkpoint = open_packed(compressed_parts(matrix, has_zeros), kPackConfig);
      expect_matrix(checkpoint, "a.weight", matrix.n_rows, matrix.n_columns, [&](int64_t row, int64_t column) {
        const int64_t group = matrix.bits == 8 ? column / 4 : matrix.bits == 4 ? column / 8 : 0;
        const auto zero = has_zeros ? static_cast<float>(zero_at(row, group, matrix.bits))
                                    : static_cast<float>(1 << (matrix.bits - 1));
        return (static_cast<float>(integer_at(row, column, matrix.bits)) - zero) * group_scale(row, group);
      });
    }
}

TEST(PackedIntegers, ColumnsNameTheirGroupsInAnyOrder) {
  std::vector<int32_t> groups;
  for (int i = 0; i < 20; ++i) groups.push_back(i * 5 % 3);
  std::vector<SmallTensor> parts = compressed_parts({9, 20, 3, 4}, false);
  parts.push_back({.name = "a.weight_g_idx", .type = "I32", .shape = {20}, .bytes = vector_bytes(groups)});
  parts[2].type = "I32";
  parts[2].bytes = vector_bytes(std::vector<int32_t>{9, 20});
  expect_matrix(open_packed(parts, kPackConfig), "a.weight", 9, 20, [&](int64_t row, int64_t column) {
    return (static_cast<float>(integer_at(row, column, 4)) - 8.0f) * group_scale(row, groups[to_size(column)]);
  });
  parts[3].shape = {4, 5};
  EXPECT_EQ(packed_refusal(parts, kPackConfig), R"(: tensor "a.weight_g_idx": shape [4, 5], want [20])");
  parts[3].shape = {20};
  parts[3].type = "F32";
  EXPECT_EQ(packed_refusal(parts, kPackConfig), R"(: tensor "a.weight_g_idx": elements of type F32, want I32)");
}

TEST(PackedIntegers, PartsThatDoNotFitAreRefused) {
  const auto refusal = [](size_t changed, const std::string& type, const std::vector<int64_t>& shape) {
    std::vector<SmallTensor> parts = compressed_parts({9, 20, 3, 4}, true);
    parts[changed].type = type;
    parts[changed].shape = shape;
    return packed_refusal(parts, kPackConfig);
  };
  EXPECT_EQ(refusal(0, "F32", {9, 3}), R"(: tensor "a.weight_packed": elements of type F32, want I32)");
  EXPECT_EQ(refusal(0, "I32", {3, 9}),
            R"(: tensor "a.weight_packed": shape [3, 9] with scales of shape [9, 3] is none that config.json gives a )"
            "matrix of 9 x 20");
  EXPECT_NE(refusal(0, "I32", {27}), "read");
  EXPECT_EQ(refusal(1, "I16", {9, 3}), R"(: tensor "a.weight_scale": elements of type I16, want F32, F16 or BF16)");
  EXPECT_NE(refusal(1, "F16", {3, 9}), "read");
  EXPECT_NE(refusal(1, "F16", {27}), "read");
  EXPECT_EQ(refusal(2, "F64", {2}), R"(: tensor "a.weight_shape": elements of type F64, want I32)");
  EXPECT_EQ(refusal(2, "I64", {2, 1}), R"(: tensor "a.weight_shape": shape [2, 1], want [2])");
  EXPECT_EQ(refusal(3, "F32", {2, 3}), R"(: tensor "a.weight_zero_point": elements of type F32, want I32)");
  EXPECT_EQ(refusal(3, "I32", {3, 2}), R"(: tensor "a.weight_zero_point": shape [3, 2], want [2, 3])");
  std::vector<SmallTensor> parts = compressed_parts({9, 20, 3, 4}, false);
  const int64_t most = int64_t{1} << 31;
  for (const auto& [n_rows, n_columns] :
       std::vector<std::pair<int64_t, int64_t>>{{-1, 20}, {9, -1}, {most + 1, 20}, {9, most + 1}}) {
    parts[2].bytes = vector_bytes(std::vector{n_rows, n_columns});
    EXPECT_EQ(packed_refusal(parts, kPackConfig),
              fmt::format(R"(: tensor "a.weight_shape": extents {} and {}, want 0 to {})", n_rows, n_columns, most));
  }
  parts[2].bytes = vector_bytes(std::vector{most, most});
  EXPECT_NE(packed_refusal(parts, kPackConfig).find("is none that config.json gives"), std::string::npos);
  EXPECT_EQ(packed_refusal({parts[0], parts[1]}, kPackConfig), R"(: no tensor "a.weight_shape")");
}

TEST(Bitnet, BytesHoldFourRows) {
  std::string bytes;
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 5; ++column) {
      uint32_t byte = 0;
      for (int i = 0; i < 4; ++i) byte |= integer_at(row + i * 3, column, 2) << (2 * i);
      bytes += static_cast<char>(byte);
    }
  const SmallTensor weight{.name = "a.weight", .type = "U8", .shape = {3, 5}, .bytes = bytes};
  const std::string config = R"({"quant_method":"bitnet"})";
  const auto scale = [](const std::vector<float>& values) {
    return SmallTensor{
        .name = "a.weight_scale", .type = "F32", .shape = {std::ssize(values)}, .bytes = vector_bytes(values)};
  };
  expect_matrix(open_packed({weight, scale({3})}, config), "a.weight", 12, 5, [](int64_t row, int64_t column) {
    return (static_cast<float>(integer_at(row, column, 2)) - 1.0f) / 3.0f;
  });
  EXPECT_EQ(packed_refusal({weight, scale({0})}, config), R"(: tensor "a.weight_scale": a scale of 0)");
  EXPECT_EQ(packed_refusal({weight, scale({INFINITY})}, config), R"(: tensor "a.weight_scale": not finite)");
  EXPECT_EQ(packed_refusal({weight, scale({1, 2})}, config),
            R"(: tensor "a.weight_scale": shape [2], want one element)");
  SmallTensor other = weight;
  other.type = "I8";
  EXPECT_EQ(packed_refusal({other, scale({1})}, config), R"(: tensor "a.weight": elements of type I8, want U8)");
  other = weight;
  other.shape = {15};
  EXPECT_EQ(packed_refusal({other, scale({1})}, config), R"(: tensor "a.weight": shape [15], want 2 dimensions)");
  EXPECT_EQ(packed_refusal({weight, {.name = "a.weight_scale", .type = "I32", .shape = {1}, .bytes = "1234"}}, config),
            R"(: tensor "a.weight_scale": elements of type I32, want F32, F16 or BF16)");
}

}  // namespace
}  // namespace tessera::convert
