// Parts of files on disk: what a killed process leaves, and what the next one makes of it.
#include "tessera/hub/part_file.h"

#include <filesystem>

#include "tests/hub/hub_support.h"

namespace tessera::hub {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A folder of blobs, and the path of one.
std::string blob_in(const std::string& name) {
  const std::string folder = testing::temporary_path(name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder + "/blob";
}

std::string names_beside(const std::string& blob) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(blob).parent_path()))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

const std::function<bool()> kProceed = [] { return true; };

TEST(PartFile, RangesAreHashedInTheirOrder) {
  const std::string blob = blob_in("part_order");
  ASSERT_OK_AND_ASSIGN(PartFile part, PartFile::open(blob, 10, HashKind::sha256));
  EXPECT_EQ(names_beside(blob), "blob.incomplete ");
  ASSERT_OK(part.write(0, bytes_of("01")));
  EXPECT_EQ(part.n_hashed(), 2u);
  ASSERT_OK(part.begin_ranges());
  EXPECT_EQ(names_beside(blob), "blob.ranges blob.ranges.begin ");
  ASSERT_OK(part.write(5, bytes_of("56789")));
  EXPECT_EQ(part.n_hashed(), 2u);
  ASSERT_OK(part.write(2, bytes_of("234")));
  EXPECT_EQ(part.n_hashed(), 5u);
  ASSERT_OK(part.hash_to(10, kProceed));
  EXPECT_EQ(part.hash(), sha256_of("0123456789"));
  ASSERT_OK(part.commit());
  EXPECT_EQ(names_beside(blob), "blob ");
  EXPECT_EQ(testing::read_all(blob), "0123456789");
}

TEST(PartFile, APartIsKeptUpToItsFirstHole) {
  const std::string blob = blob_in("part_hole");
  {
    ASSERT_OK_AND_ASSIGN(PartFile part, PartFile::open(blob, 10, HashKind::sha256));
    ASSERT_OK(part.write(0, bytes_of("012")));
    ASSERT_OK(part.begin_ranges());
    ASSERT_OK(part.write(5, bytes_of("56")));
  }
  EXPECT_EQ(names_beside(blob), "blob.incomplete ");
  EXPECT_EQ(testing::read_all(blob + ".incomplete"), "012");
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 10), 3u);
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 3), 3u);
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 2), 0u);  // of another file
  { ASSERT_OK(PartFile::open(blob, 2, HashKind::sha256)); }
  EXPECT_EQ(names_beside(blob), "");
}

TEST(PartFile, AKilledProcessLeavesTheBytesBeforeTheHole) {
  const std::string blob = blob_in("part_killed");
  const auto leave = [&](const std::string& begin) {
    testing::write_below(fs::path(blob).parent_path(), "blob.ranges",
                         std::string("0123\0\0\0\0"
                                     "89",
                                     10));
    if (!begin.empty()) testing::write_below(fs::path(blob).parent_path(), "blob.ranges.begin", begin);
  };
  leave("00000000000000000004");
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 10), 4u);
  {
    ASSERT_OK_AND_ASSIGN(PartFile part, PartFile::open(blob, 10, HashKind::sha256));
    EXPECT_EQ(part.n_found(), 4u);
    EXPECT_EQ(part.n_hashed(), 0u);
    EXPECT_EQ(names_beside(blob), "blob.incomplete ");
    EXPECT_EQ(testing::read_all(blob + ".incomplete"), "0123");
  }
  EXPECT_EQ(testing::read_all(blob + ".incomplete"), "0123");  // not checked further, and kept all the same
  fs::remove(blob + ".incomplete");
  leave("");  // nothing is known about it
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 10), 0u);
  leave("00000000000000000099");  // more than there is
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 10), 10u);
  leave("garbage");
  EXPECT_EQ(PartFile::bytes_on_disk(blob, 10), 0u);
  { ASSERT_OK(PartFile::open(blob, 10, HashKind::sha256)); }
  EXPECT_EQ(names_beside(blob), "");
}

TEST(PartFile, TheNumberOfBytesBeforeTheHoleIsNoted) {
  const std::string blob = blob_in("part_noted");
  ASSERT_OK_AND_ASSIGN(PartFile part, PartFile::open(blob, 10, HashKind::sha256));
  ASSERT_OK(part.note_hashed());  // nothing without ranges
  EXPECT_EQ(names_beside(blob), "blob.incomplete ");
  ASSERT_OK(part.write(0, bytes_of("01")));
  ASSERT_OK(part.begin_ranges());
  EXPECT_EQ(testing::read_all(blob + ".ranges.begin"), "00000000000000000002");
  ASSERT_OK(part.write(2, bytes_of("2345678")));
  ASSERT_OK(part.note_hashed());
  EXPECT_EQ(testing::read_all(blob + ".ranges.begin"), "00000000000000000009");
}

TEST(PartFile, TheLongestPartIsTakenOver) {
  const std::string blob = blob_in("part_longest");
  testing::write_below(fs::path(blob).parent_path(), "blob.incomplete", "01");
  testing::write_below(fs::path(blob).parent_path(), "blob.downloadInProgress", "012");
  ASSERT_OK_AND_ASSIGN(PartFile part, PartFile::open(blob, 10, HashKind::sha256));
  EXPECT_EQ(part.n_found(), 3u);
  EXPECT_EQ(names_beside(blob), "blob.incomplete ");
  EXPECT_ERROR(part.hash_to(3, [] { return false; }), "cancelled");
  EXPECT_ERROR(part.hash_to(4, kProceed), "the part became shorter while it was read");
  part.discard();
  EXPECT_EQ(names_beside(blob), "");
}

TEST(PartFile, FoldersThatAreMissingAreErrors) {
  EXPECT_ERROR(PartFile::open(testing::temporary_path("no_such_folder") + "/blob", 1, HashKind::sha256),
               "/blob.incomplete: cannot open: No such file");
  const std::string blob = blob_in("part_link");
  fs::create_symlink("/etc/hostname", blob + ".incomplete");
  EXPECT_ERROR(PartFile::open(blob, 100, HashKind::sha256), "cannot open");
}

TEST(PartFile, HashesAreThoseOfTheHub) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ASSERT_OK_AND_ASSIGN(ContentHash git, ContentHash::create(HashKind::git_sha1, 3));
  git.add(bytes_of("abc"));
  EXPECT_EQ(git.finish(), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(hash_kind(std::string(64, 'a')), HashKind::sha256);
  EXPECT_EQ(hash_kind(std::string(40, 'a')), HashKind::git_sha1);
}

TEST(PartFile, NamesOfPartsLeadToTheirBlobs) {
  for (const std::string name : {"x.incomplete", "x.downloadInProgress", "x.ranges", "x.ranges.begin"})
    EXPECT_EQ(blob_of_part(name), "x") << name;
  EXPECT_EQ(blob_of_part("x"), "");
}

TEST(ContentRange, HasARangeAndATotal) {
  const auto range = parse_content_range("bytes 4-7/10");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 4u);
  EXPECT_EQ(range->last, 7u);
  EXPECT_EQ(range->total, 10u);
  EXPECT_TRUE(range->has_range && range->has_total);
  EXPECT_FALSE(parse_content_range("bytes 4-7/*")->has_total);
  EXPECT_FALSE(parse_content_range("bytes */10")->has_range);
  EXPECT_TRUE(parse_content_range("bytes 4-4/5")->has_range);
  for (const std::string other : {"", "bytes", "bytes 4-7", "items 4-7/10", "bytes 7-4/10", "bytes 4/10", "bytes -7/10",
                                  "bytes 4-/10", "bytes 4-7/x", "bytes 4-7/", "bytes 4-18446744073709551616/*"})
    EXPECT_FALSE(parse_content_range(other).has_value()) << other;
}

TEST(ContentRange, EtagsMayHoldHashes) {
  const std::string sha256(64, 'a'), sha1(40, 'b');
  EXPECT_EQ(hash_in_etag("\"" + sha256 + "\""), sha256);
  EXPECT_EQ(hash_in_etag("W/\"" + sha1 + "\""), sha1);
  EXPECT_EQ(hash_in_etag(sha1), sha1);
  EXPECT_EQ(hash_in_etag("\"" + std::string(32, 'a') + "\""), "");
  EXPECT_EQ(hash_in_etag(""), "");
  EXPECT_EQ(hash_in_etag("\""), "");
}

}  // namespace
}  // namespace tessera::hub
