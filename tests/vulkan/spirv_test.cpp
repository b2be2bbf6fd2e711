// The translation of cooperative matrices: small modules of instructions, by their numbers in the SPIR-V specification.
#include "tessera/vulkan/spirv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "tests/support/testing.h"

namespace tessera {
namespace {

using Words = std::vector<uint32_t>;

constexpr uint32_t kBound = 100;

Words instruction(uint32_t opcode, const Words& operands) {
  Words words = {static_cast<uint32_t>(operands.size() + 1) << 16 | opcode};
  words.insert(words.end(), operands.begin(), operands.end());
  return words;
}

Words text_of(std::string_view text) {
  Words words(text.size() / 4 + 1);
  std::memcpy(words.data(), text.data(), text.size());
  return words;
}

Words module_of(const std::vector<Words>& instructions) {
  Words module = {0x07230203, 0x00010500, 0, kBound, 0};
  for (const Words& one : instructions) module.insert(module.end(), one.begin(), one.end());
  return module;
}

// Ids: 1 uint, 2 float, 3 half, 4 scope, 5 to 7 the extents 16 to 18, 8 true, 9 false, 10 to 12 types of matrices.
std::vector<Words> declarations() {
  return {instruction(17, {1}),
          instruction(17, {5357}),
          instruction(10, text_of("SPV_KHR_physical_storage_buffer")),
          instruction(10, text_of("SPV_NV_cooperative_matrix")),
          instruction(21, {1, 32, 0}),
          instruction(22, {2, 32}),
          instruction(22, {3, 16}),
          instruction(43, {1, 4, 3}),
          instruction(43, {1, 5, 16}),
          instruction(43, {1, 6, 17}),
          instruction(43, {1, 7, 18}),
          instruction(41, {20, 8}),
          instruction(42, {20, 9}),
          instruction(5358, {10, 3, 4, 7, 6}),
          instruction(5358, {11, 3, 4, 6, 7}),
          instruction(5358, {12, 2, 4, 7, 7})};
}

std::vector<Words> translated_declarations() {
  constexpr uint32_t kExtent = kBound + 3;
  return {instruction(17, {1}),
          instruction(17, {6022}),
          instruction(10, text_of("SPV_KHR_physical_storage_buffer")),
          instruction(10, text_of("SPV_KHR_cooperative_matrix")),
          instruction(21, {1, 32, 0}),
          instruction(43, {1, kBound, 0}),
          instruction(43, {1, kBound + 1, 1}),
          instruction(43, {1, kBound + 2, 2}),
          instruction(43, {1, kExtent, 16}),
          instruction(22, {2, 32}),
          instruction(22, {3, 16}),
          instruction(43, {1, 4, 3}),
          instruction(43, {1, 5, 16}),
          instruction(43, {1, 6, 17}),
          instruction(43, {1, 7, 18}),
          instruction(41, {20, 8}),
          instruction(42, {20, 9}),
          instruction(4456, {10, 3, 4, kExtent, kExtent, kBound}),
          instruction(4456, {11, 3, 4, kExtent, kExtent, kBound + 1}),
          instruction(4456, {12, 2, 4, kExtent, kExtent, kBound + 2})};
}

TEST(Spirv, TranslatesEveryInstructionOfMatrices) {
  std::vector<Words> before = declarations(), after = translated_declarations();
  before.insert(before.end(), {instruction(5359, {10, 30, 50, 51, 9, 2, 16}), instruction(5359, {11, 31, 50, 51, 8}),
                               instruction(61, {12, 32, 52}), instruction(5361, {12, 33, 30, 31, 32}),
                               instruction(5360, {53, 33, 51, 8, 32}), instruction(5360, {53, 33, 51, 9})});
  after.insert(after.end(),
               {instruction(4457, {10, 30, 50, kBound, 51, 2, 16}), instruction(4457, {11, 31, 50, kBound + 1, 51}),
                instruction(61, {12, 32, 52}), instruction(4459, {12, 33, 30, 31, 32}),
                instruction(4458, {53, 33, kBound + 1, 51, 32}), instruction(4458, {53, 33, kBound, 51})});
  Words expected = module_of(after);
  expected[3] = kBound + 4;
  EXPECT_EQ(vulkan::to_khr_matrices(module_of(before)).value(), expected);
}

TEST(Spirv, AProductOfSumsIsByElements) {
  std::vector<Words> before = declarations(), after = translated_declarations();
  before.insert(before.end(), {instruction(61, {12, 30, 52}), instruction(5361, {12, 31, 30, 33, 32}),
                               instruction(5361, {12, 34, 31, 33, 31})});
  after.insert(after.end(), {instruction(61, {12, 30, 52}), instruction(133, {12, kBound + 4, 30, 33}),
                             instruction(129, {12, 31, 32, kBound + 4}), instruction(133, {12, kBound + 5, 31, 33}),
                             instruction(129, {12, 34, 31, kBound + 5})});
  Words expected = module_of(after);
  expected[3] = kBound + 6;
  EXPECT_EQ(vulkan::to_khr_matrices(module_of(before)).value(), expected);
}

TEST(Spirv, OtherModulesStayTheSame) {
  const Words module = module_of({instruction(17, {1}), instruction(19, {5}), instruction(253, {})});
  Words expected = module;
  expected[3] = kBound + 4;
  EXPECT_EQ(vulkan::to_khr_matrices(module).value(), expected);
  EXPECT_EQ(vulkan::to_khr_matrices(module_of({})).value().size(), 5u);
}

TEST(Spirv, BadModulesAreErrors) {
  const auto error_of = [](const Words& module) {
    const auto result = vulkan::to_khr_matrices(module);
    return result ? "" : result.error().message();
  };
  EXPECT_EQ(error_of({}), "SPIR-V: no module");
  EXPECT_EQ(error_of({1, 2, 3, 4, 5}), "SPIR-V: no module");
  const auto with = [](const Words& last) {
    std::vector<Words> all = declarations();
    all.push_back(last);
    return module_of(all);
  };
  EXPECT_EQ(error_of(with({0})), "SPIR-V: an instruction without an end");
  EXPECT_EQ(error_of(with({2 << 16 | 17})), "SPIR-V: an instruction without an end");
  EXPECT_EQ(error_of(with(instruction(5358, {13, 3, 4, 6}))), "SPIR-V: a type of matrices");
  EXPECT_EQ(error_of(with(instruction(5358, {13, 3, 4, 6, 6}))), "SPIR-V: extents of a matrix without a meaning");
  EXPECT_EQ(error_of(with(instruction(5358, {13, 3, 4, 99, 7}))), "SPIR-V: extents of a matrix without a meaning");
  EXPECT_EQ(error_of(with(instruction(5359, {10, 30, 50, 51}))), "SPIR-V: a load of a matrix");
  EXPECT_EQ(error_of(with(instruction(5359, {10, 30, 50, 51, 7}))), "SPIR-V: a load of a matrix");
  EXPECT_EQ(error_of(with(instruction(5360, {53, 33, 51}))), "SPIR-V: a store of a matrix");
  EXPECT_EQ(error_of(with(instruction(5360, {53, 33, 51, 7}))), "SPIR-V: a store of a matrix");
  EXPECT_EQ(error_of(with(instruction(5361, {12, 33, 30, 31}))), "SPIR-V: a product of matrices");
}

}  // namespace
}  // namespace tessera
