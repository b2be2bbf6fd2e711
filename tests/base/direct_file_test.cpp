// Reads past the page cache: any range of a file, its end, and files that have become shorter.
#include "tessera/base/direct_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/support/testing.h"

namespace tessera {
namespace {

using testing::write_temporary;

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

/// Aligned staging memory for reads of n bytes.
struct Staging {
  explicit Staging(size_t n) : n_bytes((n + DirectFile::kSlack + 4095) / 4096 * 4096) {
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(DirectFile::kAlignment, n_bytes)));
  }
  std::span<std::byte> bytes() const { return {memory.get(), n_bytes}; }
  size_t n_bytes;
  std::unique_ptr<std::byte, FreeBytes> memory;
};

std::string some_bytes(size_t n) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>(i * 31 + (i >> 8));
  return bytes;
}

TEST(DirectFile, ReadsAnyRange) {
  const std::string bytes = some_bytes(3 * 4096 + 100);
  const std::string path = write_temporary("direct", bytes);
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  ASSERT_OK_AND_ASSIGN(const DirectFile direct, DirectFile::open(file));
  for (const auto& [offset, n] : {std::pair<size_t, size_t>{0, 1},
                                  {0, 4096},
                                  {1, 4096},
                                  {4095, 2},
                                  {4096, 8192},
                                  {8191, 4197},
                                  {12288, 100},
                                  {12387, 1},
                                  {5000, 0},
                                  {0, 3 * 4096 + 100}}) {
    const Staging staging(n);
    ASSERT_OK_AND_ASSIGN(const auto read, direct.read(offset, n, staging.bytes()));
    ASSERT_EQ(read.size(), n);
    EXPECT_TRUE(std::ranges::equal(read, std::as_bytes(std::span(bytes)).subspan(offset, n))) << offset << "+" << n;
  }
}

TEST(DirectFile, RefusesRangesBeyondTheEnd) {
  const std::string path = write_temporary("direct-end", some_bytes(4096 + 50));
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  ASSERT_OK_AND_ASSIGN(const DirectFile direct, DirectFile::open(file));
  const Staging staging(8192);
  EXPECT_ERROR(direct.read(4096, 51, staging.bytes()), "ends at byte 4146: the file changed while it was read");
  EXPECT_ERROR(direct.read(8192, 1, staging.bytes()), path + ": ends at byte 8192");
  std::filesystem::resize_file(path, 10);
  EXPECT_ERROR(direct.read(4096, 1, staging.bytes()), "the file changed while it was read");
  EXPECT_OK(direct.read(0, 10, staging.bytes()));
}

TEST(DirectFile, RefusesMemoryThatIsTooSmallOrNotAligned) {
  const std::string path = write_temporary("direct-memory", some_bytes(10000));
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  ASSERT_OK_AND_ASSIGN(const DirectFile direct, DirectFile::open(file));
  const Staging staging(4096);
  EXPECT_ERROR(direct.read(4095, 2, staging.bytes().first(8191)), "staging memory for a read of 2");
  EXPECT_OK(direct.read(4095, 2, staging.bytes().first(8192)));
  EXPECT_ERROR(direct.read(0, 1, staging.bytes().subspan(64)), "staging memory");
}

// The second descriptor is of the file that was opened, not of one that has taken its name.
TEST(DirectFile, FollowsTheFileAndNotItsName) {
  const std::string path = write_temporary("direct-name", "first");
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  std::filesystem::remove(path);
  write_temporary("direct-name", "other");
  ASSERT_OK_AND_ASSIGN(const DirectFile direct, DirectFile::open(file));
  const Staging staging(5);
  ASSERT_OK_AND_ASSIGN(const auto read, direct.read(0, 5, staging.bytes()));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.data()), 5), "first");
}

}  // namespace
}  // namespace tessera
