#include "tessera/gguf/split.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

constexpr uint32_t kParts = 3;

// Writes the parts of a model of three tensors, t0 to t2, in a separate directory of the test. `change` may alter a
// part.
class SplitTest : public ::testing::Test {
 protected:
  using Change = std::function<void(uint32_t part, GgufBuilder& builder, std::string& tensor)>;

  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::temporary_dir() / test->name();
    std::filesystem::create_directory(dir_);
  }

  std::string path(uint32_t part) const { return split_path((dir_ / "m").string(), part, kParts); }

  void write_parts(const Change& change = [](uint32_t, GgufBuilder&, std::string&) {}) {
    for (uint32_t i = 0; i < kParts; ++i) {
      GgufBuilder builder;
      std::string tensor = "t" + std::to_string(i);
      if (i == 0) builder.set(keys::kArchitecture, "llama");
      builder.set(keys::kSplitNo, static_cast<uint16_t>(i));
      builder.set(keys::kSplitCount, static_cast<uint16_t>(kParts));
      builder.set(keys::kSplitTensorsCount, int32_t{kParts});
      change(i, builder, tensor);
      ASSERT_OK(builder.add_tensor(tensor, DType::i8, {4}));
      const std::string data(4, static_cast<char>('0' + i));
      const std::vector<std::span<const std::byte>> parts = {testing::bytes_of(data)};
      ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> bytes, gguf_to_bytes(builder, parts));
      const std::string name = std::filesystem::relative(path(i), testing::temporary_dir()).string();
      testing::write_temporary(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }

  std::filesystem::path dir_;
};

TEST_F(SplitTest, PartsAreOneModel) {
  write_parts();
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::open(path(0)));
  EXPECT_EQ(model->files().size(), 3u);
  EXPECT_EQ(*model->metadata().get<std::string_view>(keys::kArchitecture), "llama");
  ASSERT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->n_tensor_bytes(), 12u);
  const ModelFiles::Tensor* t = model->find_tensor("t2");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->file, 2u);
  EXPECT_EQ(model->data(*t)[0], std::byte{'2'});
  EXPECT_EQ(model->find_tensor("t3"), nullptr);
}

TEST_F(SplitTest, OneFileIsAModel) {
  const std::string single = testing::write_temporary("single.gguf", testing::small_gguf());
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::open(single));
  EXPECT_EQ(model->files().size(), 1u);
  EXPECT_EQ(model->tensors().size(), 2u);
}

TEST_F(SplitTest, AModelInMemoryIsOneFile) {
  const std::string whole = testing::small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto model, ModelFiles::parse(testing::bytes_of(whole), "in memory"));
  EXPECT_EQ(model->name(), "in memory");
  EXPECT_EQ(model->tensors().size(), 2u);
  const std::string part = testing::RawGguf(0, 1).key("split.count", 2, uint16_t{3}).bytes();
  EXPECT_ERROR(ModelFiles::parse(testing::bytes_of(part), "part"), "part: is one of 3 parts");
  EXPECT_ERROR(ModelFiles::parse(testing::bytes_of(whole.substr(0, 40)), "cut"), "cut: ");
}

TEST_F(SplitTest, MergedFilesWithCountZeroAreOneFile) {
  const std::string bytes = testing::RawGguf(0, 1).key("split.count", 2, uint16_t{0}).bytes();
  EXPECT_OK(ModelFiles::open(testing::write_temporary("merged.gguf", bytes)));
}

TEST_F(SplitTest, AnotherPartNamesTheFirst) {
  write_parts();
  EXPECT_ERROR(ModelFiles::open(path(1)), "is part 2 of 3 of a split model: open its first part, " + path(0));
}

TEST_F(SplitTest, MissingPartIsNamed) {
  write_parts();
  std::filesystem::remove(path(2));
  EXPECT_ERROR(ModelFiles::open(path(0)), "part 3 of 3: " + path(2) + ": cannot open");
}

TEST_F(SplitTest, RenamedFirstPartNamesTheRightForm) {
  write_parts();
  std::filesystem::rename(path(0), dir_ / "other.gguf");
  EXPECT_ERROR(ModelFiles::open((dir_ / "other.gguf").string()), "its name must be PREFIX-00001-of-00003.gguf");
}

TEST_F(SplitTest, SwappedPartsAreRefused) {
  write_parts();
  std::filesystem::rename(path(1), dir_ / "swap");
  std::filesystem::rename(path(2), path(1));
  std::filesystem::rename(dir_ / "swap", path(2));
  EXPECT_ERROR(ModelFiles::open(path(0)), path(1) + ": split.no 2 and split.count 3, want 1 and 3");
}

TEST_F(SplitTest, PartWithoutSplitKeysIsRefused) {
  write_parts([](uint32_t part, GgufBuilder& builder, std::string&) {
    if (part == 1) builder.remove(keys::kSplitNo);
  });
  EXPECT_ERROR(ModelFiles::open(path(0)), path(1) + ": key 'split.no': missing");
}

TEST_F(SplitTest, CountOfManyPartsFailsAtTheFirstMissing) {
  write_parts([](uint32_t part, GgufBuilder& builder, std::string&) {
    if (part == 0) builder.set(keys::kSplitCount, uint16_t{65535});
  });
  const std::string first = split_path((dir_ / "m").string(), 0, 65535);
  std::filesystem::rename(path(0), first);
  EXPECT_ERROR(ModelFiles::open(first), "part 2 of 65535: ");
}

TEST_F(SplitTest, CountPastTheLimitIsRefused) {
  write_parts([](uint32_t, GgufBuilder& builder, std::string&) { builder.set(keys::kSplitCount, uint32_t{65536}); });
  EXPECT_ERROR(ModelFiles::open(path(0)), "split.count, got 65536, limit 65535");
}

TEST_F(SplitTest, TensorInTwoPartsIsRefused) {
  write_parts([](uint32_t part, GgufBuilder&, std::string& tensor) {
    if (part == 2) tensor = "t0";
  });
  EXPECT_ERROR(ModelFiles::open(path(0)), path(2) + ": tensor 't0' is also in " + path(0));
}

TEST_F(SplitTest, PartOfAnotherModelIsRefused) {
  write_parts([](uint32_t part, GgufBuilder& builder, std::string&) {
    if (part == 1) builder.set(keys::kArchitecture, "qwen2");
  });
  EXPECT_ERROR(
      ModelFiles::open(path(0)),
      path(1) + ": is a part of another model: general.architecture is \"qwen2\", the first part's is \"llama\"");
}

TEST_F(SplitTest, PartsThatStateDifferentTotalsAreRefused) {
  write_parts([](uint32_t part, GgufBuilder& builder, std::string&) {
    if (part == 2) builder.set(keys::kSplitTensorsCount, int32_t{9});
  });
  EXPECT_ERROR(ModelFiles::open(path(0)), "split.tensors.count is 9, the first part's is 3");
}

TEST_F(SplitTest, WrongTotalIsRefused) {
  write_parts([](uint32_t, GgufBuilder& builder, std::string&) { builder.set(keys::kSplitTensorsCount, int32_t{4}); });
  EXPECT_ERROR(ModelFiles::open(path(0)), "split.tensors.count, got 4, but the 3 parts hold 3 tensors");
}

// Reads texts as files of another system.
Result<std::unique_ptr<ModelFiles>> read_elsewhere(const std::string& text, std::vector<uint64_t>* offsets = nullptr) {
  return ModelFiles::read(
      text.size(),
      [&](uint64_t offset, std::span<std::byte> into) -> Result<> {
        if (offsets != nullptr) offsets->push_back(offset);
        if (offset > text.size() || into.size() > text.size() - offset) return fail(ErrorCode::io, "out of range");
        std::memcpy(into.data(), text.data() + offset, into.size());
        return {};
      },
      "elsewhere");
}

TEST(ModelFilesRead, OwnsTheBytesOfAFileElsewhere) {
  std::string text = testing::small_gguf();
  std::vector<uint64_t> offsets;
  ASSERT_OK_AND_ASSIGN(const auto files, read_elsewhere(text, &offsets));
  EXPECT_EQ(offsets, std::vector<uint64_t>{0});
  text.assign(text.size(), 'x');
  EXPECT_EQ(files->name(), "elsewhere");
  EXPECT_EQ(files->tensors().size(), 2u);
  const ModelFiles::Tensor* tensor = files->find_tensor("b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(files->data(*tensor).data()) % 32, 0u);
  EXPECT_EQ(files->data(*tensor)[1], std::byte{1});
}

TEST(ModelFilesRead, ReadsLargeFilesInPieces) {
  constexpr uint64_t kPiece = uint64_t{16} << 20, kExtent = kPiece / 4 + 8;
  testing::RawGguf g(1, 1);
  g.key("general.architecture", 8).text("llama").tensor("a", {kExtent}, 0, 0).pad();
  std::string text = g.bytes();
  text.resize(text.size() + kExtent * 4, 'q');
  text.back() = 'z';
  std::vector<uint64_t> offsets;
  ASSERT_OK_AND_ASSIGN(const auto files, read_elsewhere(text, &offsets));
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, kPiece}));
  const auto data = files->data(files->tensors()[0]);
  EXPECT_EQ(data.size(), kExtent * 4);
  EXPECT_EQ(data.front(), std::byte{'q'});
  EXPECT_EQ(data.back(), std::byte{'z'});
}

TEST(ModelFilesRead, RefusesWhatCannotBeRead) {
  const auto refuse = [](uint64_t, std::span<std::byte>) -> Result<> { return fail(ErrorCode::io, "it is gone"); };
  const auto gone = ModelFiles::read(9, refuse, "elsewhere");
  EXPECT_ERROR(gone, "elsewhere: it is gone");
  EXPECT_EQ(gone.error().code(), ErrorCode::io);
  const auto huge = ModelFiles::read(UINT64_MAX, refuse, "elsewhere");
  EXPECT_ERROR(huge, "elsewhere: 18446744073709551615 bytes cannot be allocated");
  EXPECT_EQ(huge.error().code(), ErrorCode::out_of_memory);
  EXPECT_ERROR(read_elsewhere(""), "elsewhere: ");
  EXPECT_ERROR(read_elsewhere("GGUF"), "elsewhere: ");
  testing::RawGguf part(0, 1);
  part.key("split.count", 2, uint16_t{3}).pad();
  EXPECT_ERROR(read_elsewhere(part.bytes()), "elsewhere: is one of 3 parts");
}

TEST(SplitPath, IsTakenApart) {
  EXPECT_EQ(split_path("dir/m", 0, 12), "dir/m-00001-of-00012.gguf");
  const auto name = parse_split_path("dir/m-00003-of-00012.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "dir/m");
  EXPECT_EQ(name->no, 2u);
  EXPECT_EQ(name->count, 12u);
}

TEST(SplitPath, OtherNamesAreNotParts) {
  for (const char* path :
       {"m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-0001-of-00002.gguf",
        "m-00001-of-00002.GGUF", "m-+0001-of-00002.gguf", "m_00001-of-00002.gguf"})
    EXPECT_EQ(parse_split_path(path), std::nullopt) << path;
}

}  // namespace
}  // namespace tessera
