// Directories of zip archives: places of entries, and refusals.
#include "tessera/convert/source/zip_directory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

TEST(ZipDirectory, EntriesAreRangesOfTheFile) {
  const std::vector<ZipFile> files = {{.name = "a/data.pkl", .bytes = "pickle"},
                                      {.name = "a/data/0", .bytes = "numbers", .head_extra = std::string(40, '\0')},
                                      {.name = "a/empty", .bytes = "", .flags = 8},
                                      {.name = "a/large", .bytes = "large", .has_sizes_of_64_bits = true}};
  for (const char* comment : {"", "a comment with PK\x05\x06 in it"}) {
    const std::string bytes = zip_archive(files, comment);
    ASSERT_OK_AND_ASSIGN(const ZipDirectory directory, read_bytes(ZipDirectory::read, bytes));
    EXPECT_EQ(directory.entries().size(), files.size());
    for (const ZipFile& file : files) {
      const ZipEntry* entry = directory.find(file.name);
      ASSERT_NE(entry, nullptr) << file.name;
      EXPECT_EQ(bytes.substr(entry->offset, entry->n_bytes), file.bytes);
    }
    EXPECT_EQ(directory.find("a/absent"), nullptr);
  }
}

TEST(ZipDirectory, ContradictionsAreRefused) {
  const ZipFile good{.name = "a", .bytes = "12345678"};
  const auto archive = [&](ZipFile file) { return zip_archive({good, std::move(file), {.name = "z", .bytes = "z"}}); };
  const std::string whole = archive({.name = "b", .bytes = "bb"});
  const size_t end = whole.size() - 22;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = whole;
    return changed.replace(at, bytes.size(), bytes);
  };
  const std::vector<std::pair<std::string, std::string>> files = {
      {"", "no zip archive"},
      {"PK\x03\x04", "no zip archive"},
      {std::string(100, 'x'), "no zip archive, or a cut one"},
      {whole.substr(0, whole.size() - 1), "no zip archive, or a cut one"},
      {archive({.name = "b", .bytes = "bb", .method = 8}), "\"b\": compressed"},
      {archive({.name = "b", .bytes = "bb", .flags = 1}), "\"b\": encrypted"},
      {archive({.name = "a", .bytes = "bb"}), "two entries \"a\""},
      {archive({.name = "b", .bytes = "bb", .head_name = "c"}), "\"b\": its head contradicts"},
      {archive({.name = "b", .bytes = "bb", .n_more_bytes = 1}), "\"b\": its head contradicts"},
      {archive({.name = "b", .bytes = "bb", .flags = 8, .n_more_bytes = 1}), "\"b\" and \"z\" overlap"},
      {archive({.name = "b", .bytes = "bb", .flags = 8, .n_more_bytes = 1000}), "\"b\": 1002 bytes at"},
      {archive({.name = "b", .bytes = "bb", .head_shift = 1}), "\"b\": no entry at byte"},
      {archive({.name = "b", .bytes = "bb", .head_shift = 100'000}), "\"b\": 30 bytes at"},
      {with(end + 4, "\1"), "several volumes"},
      {with(end + 10, "\4"), "the directory is cut"},
      {with(end + 16, "\1"), "of the directory"},
      {with(end + 12, number_bytes(uint32_t{100'000})), "100000 bytes at"},
      {with(end + 12, number_bytes(uint32_t{400'000'000})), "a directory of 400000000 bytes"},
      {with(end + 10, number_bytes(uint16_t{UINT16_MAX})), "the zip64 end is missing"},
  };
  for (const auto& [bytes, reason] : files) {
    const auto read = read_bytes(ZipDirectory::read, bytes);
    ASSERT_FALSE(read) << reason;
    EXPECT_NE(read.error().message().find(reason), std::string::npos) << read.error().message() << "\nwant " << reason;
  }
}

// The end record with numbers of 64 bits, which writers of large files add.
TEST(ZipDirectory, TheEndMayHave64Bits) {
  const std::string whole = zip_archive({{.name = "a", .bytes = "12345678"}});
  const size_t end = whole.size() - 22;
  uint32_t n_directory = 0, offset = 0;
  std::memcpy(&n_directory, whole.data() + end + 12, sizeof n_directory);
  std::memcpy(&offset, whole.data() + end + 16, sizeof offset);
  const auto with = [&](uint64_t n_entries, uint64_t end_offset, uint32_t n_volumes) {
    std::string bytes = whole.substr(0, end);
    bytes += number_bytes(uint32_t{0x06064b50}) + number_bytes(uint64_t{44}) + std::string(12, '\0') +
             number_bytes(n_entries) + number_bytes(n_entries) + number_bytes(uint64_t{n_directory}) +
             number_bytes(uint64_t{offset});
    bytes +=
        number_bytes(uint32_t{0x07064b50}) + std::string(4, '\0') + number_bytes(end_offset) + number_bytes(n_volumes);
    return bytes + whole.substr(end, 8) + std::string(12, '\xff') + std::string(2, '\0');
  };
  ASSERT_OK_AND_ASSIGN(const ZipDirectory directory, read_bytes(ZipDirectory::read, with(1, end, 1)));
  EXPECT_NE(directory.find("a"), nullptr);
  EXPECT_EQ(read_bytes(ZipDirectory::read, with(1, end, 2)).error().code(), ErrorCode::unsupported);
  EXPECT_EQ(read_bytes(ZipDirectory::read, with(1, end + 1, 1)).error().code(), ErrorCode::format);
  EXPECT_EQ(read_bytes(ZipDirectory::read, with(1, UINT64_MAX, 1)).error().code(), ErrorCode::format);
  EXPECT_EQ(read_bytes(ZipDirectory::read, with(UINT64_MAX, end, 1)).error().code(), ErrorCode::limit);
}

}  // namespace
}  // namespace tessera::convert
