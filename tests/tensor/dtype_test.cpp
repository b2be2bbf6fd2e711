#include "tessera/tensor/dtype.h"

#include <set>

#include "tests/support/testing.h"

namespace tessera {
namespace {

TEST(DType, HasTheBlocksOfTheGgufFormat) {
  // From the format's description, written down apart from dtype.def: id, elements, bits per element.
  const struct {
    uint32_t id;
    const char* name;
    int64_t block_elements;
    double bits;
  } facts[] = {
      {0, "f32", 1, 32},           {1, "f16", 1, 16},          {30, "bf16", 1, 16},
      {28, "f64", 1, 64},          {24, "i8", 1, 8},           {25, "i16", 1, 16},
      {26, "i32", 1, 32},          {27, "i64", 1, 64},         {2, "q4_0", 32, 4.5},
      {3, "q4_1", 32, 5.0},        {6, "q5_0", 32, 5.5},       {7, "q5_1", 32, 6.0},
      {8, "q8_0", 32, 8.5},        {9, "q8_1", 32, 9.0},       {10, "q2_K", 256, 2.625},
      {11, "q3_K", 256, 3.4375},   {12, "q4_K", 256, 4.5},     {13, "q5_K", 256, 5.5},
      {14, "q6_K", 256, 6.5625},   {15, "q8_K", 256, 9.125},   {16, "iq2_xxs", 256, 2.0625},
      {17, "iq2_xs", 256, 2.3125}, {22, "iq2_s", 256, 2.5625}, {18, "iq3_xxs", 256, 3.0625},
      {21, "iq3_s", 256, 3.4375},  {19, "iq1_s", 256, 1.5625}, {29, "iq1_m", 256, 1.75},
      {20, "iq4_nl", 32, 4.5},     {23, "iq4_xs", 256, 4.25},  {34, "tq1_0", 256, 1.6875},
      {35, "tq2_0", 256, 2.0625},  {39, "mxfp4", 32, 4.25},    {40, "nvfp4", 64, 4.5},
      {41, "q1_0", 128, 1.125},    {42, "q2_0", 64, 2.25},
  };
  EXPECT_EQ(all_dtypes().size(), std::size(facts));
  for (const auto& fact : facts) {
    ASSERT_OK_AND_ASSIGN(const DType dtype, dtype_from_gguf_id(fact.id));
    const DTypeInfo& row = info(dtype);
    EXPECT_EQ(row.name, fact.name);
    EXPECT_EQ(row.dtype, dtype);
    EXPECT_EQ(row.block_elements, fact.block_elements) << fact.name;
    EXPECT_EQ(static_cast<double>(8 * row.block_bytes), fact.bits * static_cast<double>(fact.block_elements))
        << fact.name;
    EXPECT_EQ(row.is_blocked(), fact.block_elements > 1) << fact.name;
  }
}

TEST(DType, ListIsInOrderOfIds) {
  int last = -1;
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_GT(static_cast<int>(row.dtype), last);
    last = static_cast<int>(row.dtype);
  }
}

TEST(DType, WeightsHaveAllTypesButThoseOfNumbersAndActivations) {
  const std::set<std::string_view> others = {"q8_1", "q8_K", "i8", "i16", "i32", "i64", "f64"};
  for (const DTypeInfo& row : all_dtypes()) EXPECT_NE(row.is_format, others.contains(row.name)) << row.name;
}

TEST(DType, FormatsOfTheCacheAreNamedLargestFirst) {
  EXPECT_EQ(kv_format_names(), "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl");
}

TEST(DType, RemovedIdsNameTheirFormat) {
  EXPECT_ERROR(dtype_from_gguf_id(4), "type 4 (Q4_2) was removed");
  EXPECT_ERROR(dtype_from_gguf_id(5), "type 5 (Q4_3) was removed");
  EXPECT_ERROR(dtype_from_gguf_id(31), "type 31 (Q4_0_4_4) was removed from GGUF: quantize the model again from Q4_0");
  EXPECT_ERROR(dtype_from_gguf_id(33), "Q4_0_8_8");
  EXPECT_ERROR(dtype_from_gguf_id(38), "again from IQ4_NL");
}

TEST(DType, UnknownIdsAreErrors) {
  for (const uint32_t id : {43u, 63u, 64u, 255u, 256u, 1000u, UINT32_MAX})
    EXPECT_ERROR(dtype_from_gguf_id(id), "is not a GGUF tensor type");
}

TEST(DType, EveryIdIsATypeOrAnError) {
  std::set<uint32_t> known;
  for (uint32_t id = 0; id < 300; ++id)
    if (dtype_from_gguf_id(id)) known.insert(id);
  EXPECT_EQ(known.size(), all_dtypes().size());
}

TEST(DType, NamesIgnoreCase) {
  for (const DTypeInfo& row : all_dtypes()) EXPECT_EQ(dtype_from_name(row.name), row.dtype);
  EXPECT_EQ(dtype_from_name("Q4_K"), DType::q4_k);
  EXPECT_EQ(dtype_from_name("q4_k"), DType::q4_k);
  EXPECT_EQ(dtype_from_name("BF16"), DType::bf16);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
  EXPECT_EQ(dtype_from_name("q4"), std::nullopt);
  EXPECT_EQ(dtype_from_name("q4_0 "), std::nullopt);
}

}  // namespace
}  // namespace tessera
