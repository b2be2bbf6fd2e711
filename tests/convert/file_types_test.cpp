// Names of mixes, as users type them.
#include "tessera/convert/file_types.h"

#include <string>

#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

TEST(FileTypes, NamesInAnyCaseAliasesAndNumbers) {
  EXPECT_EQ(file_type_from_name("Q4_K_M"), FileType::q4_k_m);
  EXPECT_EQ(file_type_from_name("q4_k_m"), FileType::q4_k_m);
  EXPECT_EQ(file_type_from_name("Q4_K"), FileType::q4_k_m);
  EXPECT_EQ(file_type_from_name("q3_k"), FileType::q3_k_m);
  EXPECT_EQ(file_type_from_name("q5_K"), FileType::q5_k_m);
  EXPECT_EQ(file_type_from_name("15"), FileType::q4_k_m);
  EXPECT_EQ(file_type_from_name("0"), FileType::f32);
  EXPECT_EQ(file_type_from_name("38"), FileType::mxfp4_moe);
  for (const char* text : {"", "Q4_K_MM", "4", "33", "99999999999999999999", "-1", "2 ", "i8", "q8_K"})
    EXPECT_EQ(file_type_from_name(text), std::nullopt) << text;
}

// Ids in files are those of llama.cpp.
TEST(FileTypes, Ids) {
  const std::pair<const char*, uint32_t> ids[] = {
      {"F16", 1},     {"Q4_0", 2},    {"Q4_1", 3},     {"Q8_0", 7},    {"Q5_0", 8},    {"Q5_1", 9},     {"Q2_K", 10},
      {"Q3_K_S", 11}, {"Q3_K_L", 13}, {"Q4_K_S", 14},  {"Q5_K_S", 16}, {"Q6_K", 18},   {"IQ2_XXS", 19}, {"IQ2_XS", 20},
      {"Q2_K_S", 21}, {"IQ3_XS", 22}, {"IQ3_XXS", 23}, {"IQ1_S", 24},  {"IQ4_NL", 25}, {"IQ3_S", 26},   {"IQ3_M", 27},
      {"IQ2_S", 28},  {"IQ2_M", 29},  {"IQ4_XS", 30},  {"IQ1_M", 31},  {"BF16", 32},   {"TQ1_0", 36},   {"TQ2_0", 37},
      {"NVFP4", 39},  {"Q1_0", 40},   {"Q2_0", 41}};
  for (const auto& [name, id] : ids) {
    const auto type = file_type_from_name(name);
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(info(*type).id, id) << name;
    EXPECT_EQ(info(*type).name, name);
    EXPECT_EQ(file_type_from_name(std::to_string(id)), type);
    EXPECT_EQ(file_type_from_id(id), type);
  }
  EXPECT_EQ(file_type_from_id(4), std::nullopt);
}

TEST(FileTypes, EveryRowIsAtItsEnumerator) {
  for (const FileTypeInfo& row : all_file_types()) EXPECT_EQ(&info(row.type), &row) << row.name;
}

TEST(FileTypes, TypesOfWeights) {
  EXPECT_EQ(file_type_of(DType::q4_k), FileType::q4_k_m);
  EXPECT_EQ(file_type_of(DType::iq2_xs), FileType::iq2_xs);
  EXPECT_EQ(file_type_of(DType::iq3_s), FileType::iq3_s);
  EXPECT_EQ(weight_type_from_name("q6_k"), DType::q6_k);
  for (const char* text : {"i8", "f64", "q8_1", "q8_K", "q9", ""}) EXPECT_EQ(weight_type_from_name(text), std::nullopt);
}

}  // namespace
}  // namespace tessera::convert
