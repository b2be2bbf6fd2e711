#include "tessera/gguf/metadata.h"

#include <gtest/gtest.h>

#include "tessera/gguf/keys.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using testing::parse;
using testing::RawGguf;

TEST(Metadata, MissingKeyIsNamedWithItsFile) {
  const std::string bytes = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  const auto missing = file->metadata().get<uint32_t>("llama.block_count");
  EXPECT_ERROR(missing, "f.gguf: key 'llama.block_count': missing");
  EXPECT_EQ(missing.error().code(), ErrorCode::not_found);
  EXPECT_EQ(file->metadata().find("llama.block_count"), nullptr);
}

TEST(Metadata, WrongTypeNamesFileKeyFoundAndWanted) {
  const std::string bytes = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_ERROR(file->metadata().get<uint32_t>("f32"), "f.gguf: key 'f32': got 1.5 (f32), want u32");
  EXPECT_ERROR(file->metadata().get_vector<float>("ints"), "f.gguf: key 'ints': element 0: got 7 (i32), want f32");
}

TEST(Metadata, DefaultStandsInForAbsentKeysOnly) {
  const std::string bytes = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(*file->metadata().get_or<uint32_t>("absent", 7), 7u);
  EXPECT_EQ(*file->metadata().get_or<uint32_t>("u8", 7), 200u);
  EXPECT_ERROR(file->metadata().get_or<uint32_t>("f32", 7), "want u32");
}

TEST(Metadata, PerLayerTakesAScalarOrAnArray) {
  const std::string bytes = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(*file->metadata().get_per_layer<uint32_t>("u8", 2), (std::vector<uint32_t>{200, 200}));
  EXPECT_EQ(*file->metadata().get_per_layer<int32_t>("ints", 3), (std::vector<int32_t>{7, -8, 9}));
  EXPECT_ERROR(file->metadata().get_per_layer<int32_t>("ints", 4),
               "key 'ints': 3 elements, want one for each of 4 layers");
  EXPECT_ERROR(file->metadata().get_per_layer<int32_t>("absent", 4), "missing");
}

TEST(Metadata, FindsEachOfManyKeys) {
  RawGguf g(0, 1000);
  for (int i = 0; i < 1000; ++i) g.key("key." + std::to_string(i * 7919 % 1000), 5, i);
  ASSERT_OK_AND_ASSIGN(const auto file, parse(g.bytes()));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(*file->metadata().get<int32_t>("key." + std::to_string(i * 7919 % 1000)), i);
}

TEST(Keys, ArchKeyJoinsWithADot) { EXPECT_EQ(keys::arch_key("llama", "block_count"), "llama.block_count"); }

}  // namespace
}  // namespace tessera
