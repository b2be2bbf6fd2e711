#include "tessera/gguf/reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/gguf/keys.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using testing::parse;
using testing::RawGguf;
using testing::small_gguf;

TEST(GgufFile, ReadsTensorsOfASmallFile) {
  const std::string bytes = small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->data_offset() % 32, 0u);
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.dtype, DType::q4_0);
  EXPECT_EQ(a.shape, (Shape{32, 2}));
  EXPECT_EQ(a.n_bytes, 36u);
  EXPECT_EQ(a.file_offset, file->data_offset());
  const GgufTensor* b = file->find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->file_offset, file->data_offset() + 64);
  EXPECT_EQ(file->data(*b).size(), 12u);
  EXPECT_EQ(file->data(*b)[3], std::byte{3});
  EXPECT_EQ(file->find_tensor("c"), nullptr);
}

TEST(GgufFile, KeepsKeysInFileOrder) {
  const std::string bytes = small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(file->metadata().entries().size(), 17u);
  EXPECT_EQ(file->metadata().entries()[0].key, keys::kArchitecture);
  EXPECT_EQ(file->metadata().entries()[1].key, "u8");
  EXPECT_EQ(file->metadata().entries()[16].key, "nested");
}

TEST(GgufFile, ReadsVersion2) {
  const std::string bytes = RawGguf(0, 1, 2).key("k", 0, uint8_t{1}).bytes();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(file->version(), 2u);
}

TEST(GgufFile, AcceptsAFileWithoutKeysAndTensors) {
  const std::string bytes = RawGguf(0, 0).bytes();
  EXPECT_OK(parse(bytes));
}

TEST(GgufFile, HonoursTheAlignmentKey) {
  const std::string bytes =
      RawGguf(1, 1).key("general.alignment", 4, 128u).tensor("t", {4}, 0, 128).data(160, 128).bytes();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(file->alignment(), 128u);
  EXPECT_EQ(file->data_offset() % 128, 0u);
  EXPECT_EQ(file->tensors()[0].file_offset, file->data_offset() + 128);
}

TEST(GgufFile, AcceptsGapsAndAnyOrderOfOffsets) {
  const std::string bytes = RawGguf(2, 0).tensor("late", {4}, 0, 256).tensor("early", {4}, 0, 32).data(272).bytes();
  EXPECT_OK(parse(bytes));
}

// Converters write NumPy's 0-d arrays without extents, and llama.cpp reads them.
TEST(GgufFile, ReadsRankZeroAsAScalar) {
  const std::string bytes = RawGguf(1, 0).tensor("scale", {}, 0, 0).data(4).bytes();
  ASSERT_OK_AND_ASSIGN(const auto file, parse(bytes));
  EXPECT_EQ(file->tensors()[0].shape.n_elements(), 1);
  EXPECT_EQ(file->tensors()[0].n_bytes, 4u);
}

TEST(GgufFile, OpensAMappedFile) {
  const std::string path = testing::write_temporary("small.gguf", small_gguf());
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  EXPECT_EQ(file->name(), path);
  ASSERT_NE(file->file(), nullptr);
  ASSERT_NE(file->map(), nullptr);
  const GgufTensor& tensor = file->tensors()[1];
  std::vector<std::byte> read(tensor.n_bytes);
  ASSERT_OK(file->file()->read_at(tensor.file_offset, read));
  EXPECT_TRUE(std::ranges::equal(read, file->data(tensor)));
}

TEST(GgufFile, MissingFileIsNotFound) {
  const auto file = GgufFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), ErrorCode::not_found);
}

TEST(GgufFile, ReadsAModelOfLlamaCpp) {
  TESSERA_SHARED_OR_SKIP(path, "models/stories260K.gguf");
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  EXPECT_EQ(file->tensors().size(), 48u);
  EXPECT_EQ(*file->metadata().get<std::string_view>(keys::kArchitecture), "llama");
  EXPECT_EQ(*file->metadata().get<uint32_t>("llama.block_count"), 5u);
  EXPECT_EQ(file->find_tensor("token_embd.weight")->shape, (Shape{64, 512}));
  ASSERT_OK_AND_ASSIGN(const auto tokens, file->metadata().get_vector<std::string_view>(keys::kTokens));
  ASSERT_EQ(tokens.size(), 512u);
  EXPECT_EQ(tokens[0], "<unk>");
  EXPECT_EQ(tokens[3], "<0x00>");
}

TEST(GgufFile, ReadsEverySharedFile) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  TESSERA_SHARED_OR_SKIP(archs, "golden/archs");
  TESSERA_SHARED_OR_SKIP(vocabs, "vocab");
  size_t n_files = 0;
  for (const std::string& dir : {archs, vocabs}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (entry.path().extension() != ".gguf") continue;
      SCOPED_TRACE(entry.path());
      ++n_files;
      ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(entry.path()));
      EXPECT_OK(file->metadata().get<std::string_view>(keys::kArchitecture));
      EXPECT_NE(testing::touch_everything(*file), 0u);
    }
  }
  EXPECT_GT(n_files, 10u);
}

}  // namespace
}  // namespace tessera
