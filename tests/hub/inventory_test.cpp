// The cache as it is listed, and what is removed of it.
#include "tessera/hub/inventory.h"

#include "tessera/hub/file_lock.h"
#include "tests/hub/hub_support.h"

namespace tessera::hub {
namespace {

namespace fs = std::filesystem;

const std::string kFirst(40, '1'), kSecond(40, '2');

// A cache with two revisions of me/tiny, which share a blob.
struct TestCache {
  std::string dir;
  RepositoryCache cache;

  explicit TestCache(const std::string& name)
      : dir(testing::temporary_path(name)), cache((fs::remove_all(dir), dir), "me/tiny") {
    add(kFirst, "m-Q8_0.gguf", "a", 100);
    add(kFirst, "m-Q4_0-00001-of-00002.gguf", "b", 30);
    add(kFirst, "m-Q4_0-00002-of-00002.gguf", "c", 20);
    add(kFirst, "dir/config.json", "d", 7);
    add(kSecond, "m-Q8_0.gguf", "a", 100);
    EXPECT_OK(cache.write_ref("main", kFirst));
    EXPECT_OK(cache.write_ref("refs/pr/1", kSecond));
    EXPECT_OK(cache.write_listing({.commit = kFirst, .files = {}}));
    EXPECT_OK(cache.write_listing({.commit = kSecond, .files = {}}));
  }

  void add(const std::string& commit, const std::string& path, const std::string& blob, size_t size) const {
    testing::write_below(cache.folder(), "blobs/" + blob, std::string(size, 'x'));
    EXPECT_OK(cache.link(commit, {.path = path, .size = size, .oid = blob}));
  }

  Result<Removed> remove(const std::string& name) const { return remove_model(dir, parse_model_name(name).value()); }
};

TEST(Inventory, ListsModelsFilesAndParts) {
  const TestCache test("inventory_list");
  testing::write_below(test.cache.folder(), "blobs/e.incomplete", "12345");
  testing::write_below(test.cache.folder(), "blobs/f.ranges", "123");
  testing::write_below(test.cache.folder(), "blobs/f.ranges.begin", "1");
  testing::write_below(test.dir, "datasets--a--b/x", "1");
  testing::write_below(test.dir, "models--z--y/snapshots/not_a_commit/x.gguf", "1");
  ASSERT_OK_AND_ASSIGN(const auto models, list_models(test.dir));
  ASSERT_EQ(models.size(), 6u);
  EXPECT_EQ(name_of(models[0]), "me/tiny:Q4_0");
  EXPECT_EQ(models[0].file, "m-Q4_0-00001-of-00002.gguf");
  EXPECT_EQ(models[0].size, 50u);
  EXPECT_EQ(models[0].n_files, 2u);
  EXPECT_EQ(models[0].commit, kFirst);
  EXPECT_EQ(models[0].path, test.cache.snapshot(kFirst) + "/m-Q4_0-00001-of-00002.gguf");
  EXPECT_EQ(name_of(models[1]), "me/tiny:Q8_0");
  EXPECT_EQ(models[1].size, 100u);
  EXPECT_EQ(models[2].kind, CachedKind::files);
  EXPECT_EQ(name_of(models[2]), "me/tiny");
  EXPECT_EQ(models[2].size, 7u);
  EXPECT_EQ(models[2].n_files, 1u);
  EXPECT_EQ(models[3].commit, kSecond);
  EXPECT_EQ(models[4].kind, CachedKind::part);
  EXPECT_EQ(models[4].size, 5u);
  EXPECT_EQ(models[5].size, 3u);
  ASSERT_OK_AND_ASSIGN(const auto none, list_models("/no/such/folder"));
  EXPECT_TRUE(none.empty());
  EXPECT_ERROR(list_models("/etc/hostname"), "cannot list");
}

TEST(Inventory, RemovesAModelOfAllRevisionsAndItsBlobs) {
  const TestCache test("inventory_tag");
  testing::write_below(test.cache.folder(), "blobs/unnamed", "1234");
  testing::write_below(test.cache.folder(), "blobs/e.incomplete", "12345");
  ASSERT_OK_AND_ASSIGN(const Removed removed, test.remove("me/tiny:q4_0"));
  EXPECT_EQ(removed.n_files, 4u);
  EXPECT_EQ(removed.n_bytes, 59u);
  EXPECT_EQ(test.cache.blob_names(), (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(test.cache.read_ref("main"), kFirst);
  ASSERT_OK_AND_ASSIGN(const Removed both, test.remove("me/tiny:Q8_0"));
  EXPECT_EQ(both.n_files, 2u);
  EXPECT_EQ(both.n_bytes, 100u);
  EXPECT_FALSE(fs::exists(test.cache.snapshot(kSecond)));
  EXPECT_EQ(test.cache.read_ref("refs/pr/1"), "");
  EXPECT_FALSE(test.cache.has_listing(kSecond));
  EXPECT_TRUE(test.cache.has_listing(kFirst));  // config.json is still there
  EXPECT_ERROR(test.remove("me/tiny:Q8_0"), "me/tiny:Q8_0 is not in the cache");
}

// Converted files of the first revision, one of them unfinished, and others that are none.
void add_converted(const TestCache& test) {
  const std::string folder = test.cache.converted(kFirst);
  testing::write_below(folder, "Q8_0.gguf", std::string(11, 'x'));
  testing::write_below(folder, "Q4_K_M.gguf", std::string(5, 'x'));
  testing::write_below(folder, "Q4_K_M.gguf.0123456789abcdef.part", "123");
  testing::write_below(folder, "notes.txt", "1");
  testing::write_below(folder, ".gguf", "1");
  testing::write_below(folder, "a.gguf.part2", "1");
  testing::write_below(folder, "abc", "");
}

TEST(Inventory, ListsConvertedFiles) {
  const TestCache test("inventory_converted");
  add_converted(test);
  ASSERT_OK_AND_ASSIGN(const auto models, list_models(test.dir));
  ASSERT_EQ(models.size(), 7u);  // three before, one after
  EXPECT_EQ(models[3].kind, CachedKind::converted);
  EXPECT_EQ(name_of(models[3]), "me/tiny:Q4_K_M");
  EXPECT_EQ(models[3].size, 5u);
  EXPECT_EQ(models[3].n_files, 1u);
  EXPECT_EQ(models[3].commit, kFirst);
  EXPECT_EQ(models[3].path, test.cache.converted(kFirst) + "/Q4_K_M.gguf");
  EXPECT_EQ(models[4].kind, CachedKind::part);
  EXPECT_EQ(name_of(models[4]), "me/tiny:Q4_K_M");
  EXPECT_EQ(models[4].size, 3u);
  EXPECT_EQ(name_of(models[5]), "me/tiny:Q8_0");
  EXPECT_EQ(models[6].commit, kSecond);
}

TEST(Inventory, RemovesConvertedFiles) {
  const TestCache test("inventory_remove_converted");
  add_converted(test);
  ASSERT_OK_AND_ASSIGN(const Removed one, test.remove("me/tiny:q4_k_m"));
  EXPECT_EQ(one.n_files, 2u);
  EXPECT_EQ(one.n_bytes, 8u);
  EXPECT_EQ(test.cache.converted_names(kFirst),
            (std::vector<std::string>{".gguf", "Q8_0.gguf", "a.gguf.part2", "abc", "notes.txt"}));
  // A file of the repository with this tag goes as well.
  ASSERT_OK_AND_ASSIGN(const Removed both, test.remove("me/tiny:Q8_0"));
  EXPECT_EQ(both.n_files, 3u);
  EXPECT_EQ(both.n_bytes, 111u);
  ASSERT_OK_AND_ASSIGN(const Removed rest, test.remove("me/tiny@" + kFirst));
  EXPECT_EQ(rest.n_bytes, 60u);  // b, c, d and three files that are no models
  EXPECT_FALSE(fs::exists(test.cache.folder()));
}

TEST(Inventory, TheFolderOfConvertedFilesGoesWithTheLastOne) {
  const TestCache test("inventory_last_converted");
  testing::write_below(test.cache.converted(kFirst), "F16.gguf", "12");
  ASSERT_OK_AND_ASSIGN(const Removed removed, test.remove("me/tiny:F16"));
  EXPECT_EQ(removed.n_bytes, 2u);
  EXPECT_FALSE(fs::exists(test.cache.converted(kFirst)));
  EXPECT_TRUE(fs::exists(test.cache.snapshot(kFirst)));
  EXPECT_ERROR(test.remove("me/tiny:F16"), "me/tiny:F16 is not in the cache");
  testing::write_below(test.cache.converted(kSecond), "F16.gguf", "12");
  ASSERT_OK_AND_ASSIGN(const Removed all, test.remove("me/tiny"));
  EXPECT_EQ(all.n_files, 5u);
  EXPECT_EQ(all.n_bytes, 159u);
}

TEST(Inventory, AConversionOfAnotherProcessIsNotRemoved) {
  const TestCache test("inventory_converting");
  testing::write_below(test.cache.converted(kFirst), "Q8_0.gguf.0123456789abcdef.part", "12");
  {
    ASSERT_OK_AND_ASSIGN(const auto lock, FileLock::try_acquire(test.cache.converted_lock(kFirst)));
    ASSERT_TRUE(lock.has_value());
    EXPECT_ERROR(test.remove("me/tiny:Q8_0"), "me/tiny is being converted by another process");
  }
  EXPECT_OK(test.remove("me/tiny:Q8_0"));
}

TEST(Inventory, RemovesARevision) {
  const TestCache test("inventory_revision");
  testing::write_below(test.cache.snapshot(kSecond), "moved.gguf", "123");
  ASSERT_OK_AND_ASSIGN(const Removed removed, test.remove("me/tiny@refs/pr/1"));
  EXPECT_EQ(removed.n_bytes, 3u);  // the other revision names the blob
  EXPECT_EQ(test.cache.commits(), std::vector{kFirst});
  EXPECT_ERROR(test.remove("me/tiny@v1"), "me/tiny@v1 is not in the cache");
  ASSERT_OK_AND_ASSIGN(const Removed last, test.remove("me/tiny@" + kFirst));
  EXPECT_EQ(last.n_bytes, 157u);
  EXPECT_FALSE(fs::exists(test.cache.folder()));
}

TEST(Inventory, RemovesARepository) {
  const TestCache test("inventory_all");
  // A file that was moved into the snapshot, where links cannot be made.
  testing::write_below(test.cache.snapshot(kSecond), "moved.gguf", "123");
  ASSERT_OK_AND_ASSIGN(const Removed removed, test.remove("me/tiny"));
  EXPECT_EQ(removed.n_files, 5u);
  EXPECT_EQ(removed.n_bytes, 160u);
  EXPECT_FALSE(fs::exists(test.cache.folder()));
  EXPECT_ERROR(test.remove("me/tiny"), "me/tiny is not in the cache " + test.dir);
}

TEST(Inventory, ADownloadOfAnotherProcessIsNotRemoved) {
  const TestCache test("inventory_locked");
  testing::write_below(test.cache.folder(), "blobs/e.incomplete", "12345");
  {
    ASSERT_OK_AND_ASSIGN(const auto lock, FileLock::try_acquire(test.cache.lock("e")));
    ASSERT_TRUE(lock.has_value());
    EXPECT_ERROR(test.remove("me/tiny"), "me/tiny is being downloaded by another process");
  }
  EXPECT_OK(test.remove("me/tiny"));
}

// Where links cannot be made, the file itself moves into the snapshot. A folder with the name of the temporary link
// stands for such a file system.
TEST(Inventory, AFileIsMovedWhereLinksCannotBeMade) {
  const TestCache test("inventory_no_links");
  const std::string path = test.cache.snapshot(kFirst) + "/new.gguf";
  testing::write_below(test.cache.folder(), "blobs/n", "1234");
  fs::create_directories(path + ".link" + std::to_string(::getpid()) + "/x");
  EXPECT_OK(test.cache.link(kFirst, {.path = "new.gguf", .size = 4, .oid = "n"}));
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(testing::read_all(path), "1234");
  EXPECT_FALSE(fs::exists(test.cache.blob("n")));
  EXPECT_TRUE(test.cache.has_file(kFirst, {.path = "new.gguf", .size = 4, .oid = "n"}));
  EXPECT_ERROR(test.cache.link(kFirst, {.path = "new.gguf", .size = 4, .oid = "gone"}), "cannot move the file here");
}

// A file of another size, a folder, and names that no repository may have are not files of a snapshot.
TEST(Inventory, FilesOfASnapshotAreChecked) {
  const TestCache test("inventory_files");
  EXPECT_TRUE(test.cache.has_file(kFirst, {.path = "m-Q8_0.gguf", .size = 100, .oid = "a"}));
  EXPECT_FALSE(test.cache.has_file(kFirst, {.path = "m-Q8_0.gguf", .size = 99, .oid = "a"}));
  EXPECT_FALSE(test.cache.has_file(kFirst, {.path = "dir", .size = 0, .oid = "d"}));
  EXPECT_TRUE(test.cache.has_blob({.path = "x", .size = 7, .oid = "d"}));
  EXPECT_FALSE(test.cache.has_blob({.path = "x", .size = 8, .oid = "d"}));
  testing::write_below(test.cache.snapshot(kSecond), "a\\b", "1");
  const auto files = test.cache.files_of_snapshot(kSecond);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].path, "m-Q8_0.gguf");
}

// Folders go with their last file, and no further up than the snapshot.
TEST(Inventory, EmptyFoldersGoWithTheirLastFile) {
  const TestCache test("inventory_folders");
  test.add(kFirst, "dir/sub/one.txt", "e", 1);
  test.cache.unlink(kFirst, "dir/sub/one.txt");
  EXPECT_FALSE(fs::exists(test.cache.snapshot(kFirst) + "/dir/sub"));
  EXPECT_TRUE(fs::exists(test.cache.snapshot(kFirst) + "/dir/config.json"));
  test.cache.unlink(kFirst, "dir/config.json");
  EXPECT_FALSE(fs::exists(test.cache.snapshot(kFirst) + "/dir"));
  EXPECT_TRUE(fs::exists(test.cache.snapshot(kFirst) + "/m-Q8_0.gguf"));
}

// The tag of a converted file is no tag of the repository's other revisions, which have checkpoints alone.
TEST(Inventory, ATagRemovesNoCheckpoint) {
  const TestCache test("inventory_checkpoint");
  const std::string third(40, '3');
  test.add(third, "model.safetensors", "f", 9);
  testing::write_below(test.cache.converted(third), "Q8_0.gguf", "12");
  ASSERT_OK(test.remove("me/tiny:Q8_0"));
  EXPECT_TRUE(test.cache.has_file(third, {.path = "model.safetensors", .size = 9, .oid = "f"}));
  EXPECT_TRUE(test.cache.converted_names(third).empty());
}

TEST(Inventory, NamesOfFoldersAreThoseOfTheHub) {
  EXPECT_EQ(cache_folder_name("me/tiny"), "models--me--tiny");
  EXPECT_EQ(repository_of_folder("models--me--tiny"), "me/tiny");
  EXPECT_EQ(repository_of_folder("datasets--me--tiny"), "");
  EXPECT_EQ(repository_of_url(parse_url("http://Host:8080/a/b%20c.gguf").value()).value(), "host:8080/a/b c.gguf");
  const std::string first = repository_of_url(parse_url("http://h/a.gguf?v=1").value()).value();
  const std::string second = repository_of_url(parse_url("http://h/a.gguf?v=2").value()).value();
  EXPECT_TRUE(first.starts_with("h/a.gguf/")) << first;
  EXPECT_NE(first, second);
  for (const std::string bad : {"http://h/%2e%2e/x", "http://h/a%00b", "http://h//x"})
    EXPECT_EQ(repository_of_url(parse_url(bad).value()).value().size(), 18u) << bad;
  const std::string long_path = "http://h/" + std::string(300, 'a');
  EXPECT_EQ(repository_of_url(parse_url(long_path).value()).value().size(), 18u);
}

}  // namespace
}  // namespace tessera::hub
