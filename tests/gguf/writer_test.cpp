#include "tessera/gguf/writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/gguf/split.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using testing::bytes_of;
using testing::RawGguf;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Two tensors of 12 and 18 bytes.
GgufBuilder two_tensors() {
  GgufBuilder builder;
  builder.set("general.architecture", "llama");
  EXPECT_OK(builder.add_tensor("a", DType::f32, {3}));
  EXPECT_OK(builder.add_tensor("b", DType::q4_0, {32}));
  return builder;
}

// A copy of a file through the builder and the streaming writer.
Result<std::string> rewritten(const GgufFile& file) {
  GgufBuilder builder;
  TESSERA_TRY(builder.set_all(file.metadata()));
  for (const GgufTensor& t : file.tensors()) TESSERA_TRY(builder.add_tensor(t.name, t.dtype, t.shape));
  const std::string path = (testing::temporary_dir() / "copy.gguf").string();
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  for (const GgufTensor& t : file.tensors()) TESSERA_TRY(writer.write_tensor(t.name, file.data(t)));
  TESSERA_TRY(writer.finish());
  return testing::read_all(path);
}

TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  GgufBuilder builder;
  builder.set("s", "text");
  builder.set("n", uint16_t{7});
  builder.set("b", true);
  builder.set_array("i", std::vector<int32_t>{1, -2});
  builder.set_array("t", std::vector<std::string>{"x", "yz"});
  ASSERT_OK(builder.add_tensor("a", DType::f32, {3, 1}));
  ASSERT_OK(builder.add_tensor("c", DType::q4_0, {32, 1, 2}));
  const std::string data(36, '\5');
  const std::vector<std::span<const std::byte>> parts = {bytes_of(data).first(12), bytes_of(data)};
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> written, gguf_to_bytes(builder, parts));

  RawGguf raw(2, 5);
  raw.key("s", 8).text("text").key("n", 2, uint16_t{7}).key("b", 7, uint8_t{1});
  raw.array("i", 5, 2).number(1).number(-2).array("t", 8, 2).text("x").text("yz");
  raw.tensor("a", {3}, 0, 0).tensor("c", {32, 1, 2}, 2, 32);
  raw.pad().raw(data.substr(0, 12)).pad().raw(data).pad();
  EXPECT_EQ(text_of(written), raw.bytes());
}

TEST(GgufWriter, EveryTypeComesBack) {
  GgufBuilder b;
  b.set("u8", uint8_t{255});
  b.set("i8", int8_t{-128});
  b.set("u16", uint16_t{65535});
  b.set("i16", int16_t{-32768});
  b.set("u32", ~uint32_t{0});
  b.set("i32", INT32_MIN);
  b.set("u64", ~uint64_t{0});
  b.set("i64", INT64_MIN);
  b.set("f32", 0.1f);
  b.set("f64", 0.1);
  b.set("no", false);
  b.set("text", std::string("\0z", 2));
  b.set_array("bools", std::vector<bool>{true, false, true});
  b.set_array("doubles", std::vector<double>{1, 2});
  b.set_array("empty", std::vector<std::string_view>{});
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> bytes, gguf_to_bytes(b, {}));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes, "f.gguf"));
  const Metadata& m = file->metadata();
  EXPECT_EQ(*m.get<uint8_t>("u8"), 255);
  EXPECT_EQ(*m.get<int8_t>("i8"), -128);
  EXPECT_EQ(*m.get<uint16_t>("u16"), 65535);
  EXPECT_EQ(*m.get<int16_t>("i16"), -32768);
  EXPECT_EQ(*m.get<uint32_t>("u32"), ~uint32_t{0});
  EXPECT_EQ(*m.get<int32_t>("i32"), INT32_MIN);
  EXPECT_EQ(*m.get<uint64_t>("u64"), ~uint64_t{0});
  EXPECT_EQ(*m.get<int64_t>("i64"), INT64_MIN);
  EXPECT_EQ(*m.get<float>("f32"), 0.1f);
  EXPECT_EQ(*m.get<double>("f64"), 0.1);
  EXPECT_FALSE(*m.get<bool>("no"));
  EXPECT_EQ(*m.get<std::string_view>("text"), std::string_view("\0z", 2));
  EXPECT_EQ(*m.get_vector<bool>("bools"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(*m.get_vector<double>("doubles"), (std::vector<double>{1, 2}));
  EXPECT_EQ(m.find("empty")->size(), 0u);
  EXPECT_EQ(m.find("empty")->element_type(), GgufType::string);
}

TEST(GgufWriter, FileEqualsTheBytesInMemory) {
  const GgufBuilder builder = two_tensors();
  const std::string data(18, '\7');
  const std::string path = (testing::temporary_dir() / "stream.gguf").string();
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  ASSERT_OK(writer.append(bytes_of(data).first(5)));
  ASSERT_OK(writer.append(bytes_of(data).first(7)));
  ASSERT_OK(writer.write_tensor("b", bytes_of(data)));
  ASSERT_OK(writer.finish());
  const std::vector<std::span<const std::byte>> parts = {bytes_of(data).first(12), bytes_of(data)};
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> in_memory, gguf_to_bytes(builder, parts));
  EXPECT_EQ(testing::read_all(path), text_of(in_memory));
}

TEST(GgufWriter, RefusesWrongByteCounts) {
  const GgufBuilder builder = two_tensors();
  const std::string data(64, '\0');
  const std::string path = (testing::temporary_dir() / "wrong.gguf").string();
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  EXPECT_ERROR(writer.append(bytes_of(data).first(13)), "tensor 'a': 13 bytes, want at most 12 more of 12");
  EXPECT_ERROR(writer.write_tensor("a", bytes_of(data).first(11)), "11 bytes of tensor 'a', want 12 of 'a'");
  EXPECT_ERROR(writer.write_tensor("b", bytes_of(data).first(18)), "18 bytes of tensor 'b', want 12 of 'a'");
  ASSERT_OK(writer.write_tensor("a", bytes_of(data).first(12)));
  ASSERT_OK(writer.append(bytes_of(data).first(4)));
  EXPECT_ERROR(writer.finish(), "1 of 2 tensors written, 14 bytes of 'b' missing");
  ASSERT_OK(writer.append(bytes_of(data).first(14)));
  EXPECT_ERROR(writer.append(bytes_of(data).first(1)), "1 bytes after the last tensor");
  EXPECT_OK(writer.finish());
}

TEST(GgufWriter, UnfinishedFileDoesNotAppear) {
  const std::filesystem::path dir = testing::temporary_dir() / "unfinished";
  std::filesystem::create_directory(dir);
  { ASSERT_OK(GgufWriter::create((dir / "m.gguf").string(), two_tensors())); }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(GgufBuilder, SettingAgainReplacesInPlace) {
  GgufBuilder builder;
  builder.set("a", 1);
  builder.set("b", 2);
  builder.set("a", "new");
  builder.set("gone", 3);
  builder.remove("gone");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> bytes, gguf_to_bytes(builder, {}));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes, "f.gguf"));
  ASSERT_EQ(file->metadata().entries().size(), 2u);
  EXPECT_EQ(file->metadata().entries()[0].key, "a");
  EXPECT_EQ(*file->metadata().get<std::string_view>("a"), "new");
}

TEST(GgufBuilder, RefusesWhatNoReaderTakes) {
  GgufBuilder builder;
  EXPECT_ERROR(builder.add_tensor("", DType::f32, {1}), "name of 0 bytes");
  EXPECT_ERROR(builder.add_tensor(std::string(64, 'n'), DType::f32, {1}), "name of 64 bytes, want 1 to 63");
  EXPECT_ERROR(builder.add_tensor("t", DType::f32, {0}), "want extents of at least 1");
  EXPECT_ERROR(builder.add_tensor("t", DType::q4_0, {33}), "tensor 't': row of 33 elements");
  EXPECT_TRUE(builder.tensors().empty());
  ASSERT_OK(builder.add_tensor("t", DType::f32, {1}));
  ASSERT_OK(builder.add_tensor("t", DType::f32, {1}));
  EXPECT_ERROR(builder.header(), "tensor 't' was added twice");
}

TEST(GgufBuilder, RefusesBadKeys) {
  for (const std::string& key : {std::string(), std::string("a\n"), std::string(65536, 'k')}) {
    GgufBuilder builder;
    builder.set(key, 1);
    EXPECT_ERROR(builder.header(), "want");
  }
  GgufBuilder builder;
  builder.set("general.alignment", uint32_t{64});
  EXPECT_ERROR(builder.header(), "the alignment is always 32");
}

TEST(GgufBuilder, CopiesMetadataButNotTheAlignment) {
  RawGguf raw(0, 2);
  raw.key("general.alignment", 4, 64u).array("strings", 8, 2).text("a").text("bc");
  ASSERT_OK_AND_ASSIGN(const auto file, testing::parse(raw.bytes()));
  ASSERT_OK_AND_ASSIGN(const std::string copy, rewritten(*file));
  EXPECT_EQ(copy, RawGguf(0, 1).array("strings", 8, 2).text("a").text("bc").bytes());
}

TEST(GgufBuilder, DoesNotWriteNestedArrays) {
  const std::string bytes = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, testing::parse(bytes));
  GgufBuilder builder;
  EXPECT_ERROR(builder.set_all(file->metadata()), "key 'nested': an array of arrays is not written");
}

TEST(GgufBuilder, LastExtentsOfOneAreKeptWhereWanted) {
  GgufBuilder builder;
  ASSERT_OK(builder.add_tensor("kept", DType::f32, {4, 1}, 2));
  ASSERT_OK(builder.add_tensor("plain", DType::f32, {4, 1}));
  ASSERT_OK(builder.add_tensor("more", DType::f32, {4, 2}, 1));
  ASSERT_OK(builder.add_tensor("most", DType::f32, {4}, 9));
  ASSERT_OK_AND_ASSIGN(const auto header, builder.header());
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse_header(header, "test"));
  EXPECT_EQ(file->find_tensor("kept")->rank, 2);
  EXPECT_EQ(file->find_tensor("plain")->rank, 1);
  EXPECT_EQ(file->find_tensor("more")->rank, 2);
  EXPECT_EQ(file->find_tensor("most")->rank, 4);
  EXPECT_EQ(file->find_tensor("kept")->shape, (Shape{4, 1}));
}

TEST(GgufFile, AHeaderAloneHasNoData) {
  GgufBuilder builder;
  builder.set("general.architecture", "a");
  ASSERT_OK(builder.add_tensor("t", DType::f32, {4, 2}));
  ASSERT_OK_AND_ASSIGN(const auto header, builder.header());
  EXPECT_FALSE(GgufFile::parse(header, "test").has_value());
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse_header(header, "test"));
  EXPECT_EQ(file->find_tensor("t")->n_bytes, 32u);
  EXPECT_TRUE(file->data(*file->find_tensor("t")).empty());
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::parse_header(header, "test"));
  EXPECT_EQ(model->n_tensor_bytes(), 32u);
  ASSERT_NE(model->find_tensor("t"), nullptr);
  EXPECT_TRUE(model->data(*model->find_tensor("t")).empty());
  EXPECT_FALSE(GgufFile::parse_header(std::span(header).first(40), "test").has_value());
}

// The files were written by llama.cpp's own library and scripts. The same content must give the same bytes.
TEST(GgufWriter, RewritesSharedFilesBitForBit) {
  TESSERA_SHARED_OR_SKIP(archs, "golden/archs");
  TESSERA_SHARED_OR_SKIP(model, "models/stories260K.gguf");
  std::vector<std::string> paths = {model};
  for (const auto& entry : std::filesystem::directory_iterator(archs))
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
    ASSERT_OK_AND_ASSIGN(const std::string copy, rewritten(*file));
    EXPECT_TRUE(copy == text_of(file->bytes()));
  }
}

}  // namespace
}  // namespace tessera
