// Files of the server by themselves: directories, the formats of blocks and of slots, and the disk thread.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "tessera/server/storage/block_file.h"
#include "tessera/server/storage/prefix_keys.h"
#include "tessera/server/storage/slot_file.h"
#include "tessera/server/storage/storage.h"
#include "tests/support/closed_input.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using namespace testing;
using namespace server;
namespace fs = std::filesystem;

std::vector<std::byte> some_bytes(size_t n, uint32_t seed = 1) {
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// --- digests

TEST(Digests, AreThoseOfSha256) {
  EXPECT_EQ(hex_text(Sha256().finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string_view abc = "abc";
  EXPECT_EQ(hex_text(Sha256().add(std::as_bytes(std::span(abc))).finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digests, DependOnAllBefore) {
  const Digest session = Sha256().finish();
  const std::vector<int32_t> a = {1, 2, 3}, b = {1, 2, 4};
  const Digest root = root_digest(session, ""), salted = root_digest(session, "x");
  EXPECT_NE(root, salted);
  const AdapterKey adapter{.fingerprint = 7, .scale = 0.5f}, scaled{.fingerprint = 7, .scale = 0.25f};
  const Digest adapted = root_digest(session, "", std::vector{adapter});
  EXPECT_NE(adapted, root);
  EXPECT_NE(adapted, root_digest(session, "", std::vector{scaled}));
  EXPECT_NE(root_digest(session, "", std::vector{adapter, scaled}),
            root_digest(session, "", std::vector{scaled, adapter}));
  EXPECT_NE(block_digest(root, a), block_digest(root, b));
  EXPECT_NE(block_digest(root, a), block_digest(salted, a));
  EXPECT_NE(block_digest(block_digest(root, a), a), block_digest(block_digest(root, b), a));
  EXPECT_EQ(block_digest(root, a), block_digest(root, a));
}

TEST(Digests, TellPartsOfABlockApart) {
  const Digest block = block_digest(Sha256().finish(), std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(part_digest(block, {}), block);
  const SavedPart window{.kind = SavedPart::Kind::window, .group = 1}, state{.kind = SavedPart::Kind::state};
  const SavedPart other_group{.kind = SavedPart::Kind::window, .group = 2};
  const SavedPart other_row{.kind = SavedPart::Kind::window, .group = 1, .begin_row = 3};
  const std::vector<Digest> digests = {block, part_digest(block, window), part_digest(block, state),
                                       part_digest(block, other_group), part_digest(block, other_row)};
  for (size_t i = 0; i < digests.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(digests[i], digests[j]) << i << " " << j;
}

TEST(Digests, OfBlocksFollowTheirTokens) {
  const Digest root = root_digest({}, "");
  std::vector<int32_t> tokens(2 * kKvBlockTokens + 5);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i);
  const std::span<const int32_t> all = tokens, first = all.first(kKvBlockTokens);
  const auto second = all.subspan(kKvBlockTokens, kKvBlockTokens), rest = all.subspan(2 * kKvBlockTokens);
  const Digest one = block_digest(root, first), two = block_digest(one, second);
  PrefixKeys keys(root, tokens);
  EXPECT_EQ(keys.digest({.logical = 1}), two);
  EXPECT_EQ(keys.digest({.logical = 0}), one);
  EXPECT_EQ(keys.digest({.logical = 2, .end_row = 5}), block_digest(two, rest));
  EXPECT_EQ(keys.digest({.logical = 1, .end_row = 7}), block_digest(one, second.first(7)));
  const SavedPart window{.kind = SavedPart::Kind::window, .group = 1, .logical = 1};
  EXPECT_EQ(keys.digest(window), part_digest(two, window));
  const BlockKey key = keys.key({.logical = 1});
  EXPECT_EQ(key.root, root);
  EXPECT_EQ(key.parent, one);
  EXPECT_EQ(key.digest, two);
  EXPECT_TRUE(std::ranges::equal(key.tokens, second));
}

// --- files of blocks

class BlockFile : public ::testing::Test {
 protected:
  void SetUp() override {
    key_.root = root_digest({}, "");
    key_.parent = key_.root;
    for (int32_t i = 0; i < 64; ++i) key_.tokens.push_back(i * 3);
    key_.digest = block_digest(key_.parent, key_.tokens);
    payload_ = some_bytes(777);
    file_ = block_file_front(key_, payload_.size());
    const uint64_t checksum = block_file_checksum(file_, payload_);
    append(file_, payload_);
    append(file_, std::as_bytes(std::span(&checksum, 1)));
  }

  BlockKey key_;
  std::vector<std::byte> payload_, file_;
};

TEST_F(BlockFile, GivesThePayload) {
  EXPECT_EQ(file_.size(), block_file_bytes(key_, payload_.size()));
  EXPECT_EQ(file_.size(), 96u + 256 + 777 + 8);
  ASSERT_OK_AND_ASSIGN(const auto payload, block_payload(file_, key_, payload_.size()));
  EXPECT_TRUE(std::ranges::equal(payload, payload_));
  EXPECT_EQ(key_.path(),
            hex_text(key_.root).substr(0, 16) + "/" + hex_text(key_.digest).substr(0, 2) + "/" + hex_text(key_.digest));
}

TEST_F(BlockFile, EveryFlippedBitAndEveryTruncationIsRefused) {
  for (size_t i = 0; i < file_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = file_;
      changed[i] ^= std::byte{1} << bit;
      ASSERT_FALSE(block_payload(changed, key_, payload_.size()).has_value()) << "byte " << i << " bit " << bit;
    }
    ASSERT_FALSE(block_payload(std::span(file_).first(i), key_, payload_.size()).has_value()) << i << " bytes";
  }
}

TEST_F(BlockFile, AnotherBlocksFileIsRefused) {
  BlockKey other = key_;
  other.tokens[5] = 1;
  EXPECT_ERROR(block_payload(file_, other, payload_.size()), "another block");
  other = key_;
  other.parent = {};
  EXPECT_ERROR(block_payload(file_, other, payload_.size()), "another block");
  EXPECT_ERROR(block_payload(file_, key_, payload_.size() + 1), "bytes, want");
}

// --- files of slots

class SlotFile : public ::testing::Test {
 protected:
  void SetUp() override {
    slot_ = {.session = root_digest({}, "s"),
             .salt = "abc",
             .adapters = {{.fingerprint = 77, .scale = 0.5f}, {.fingerprint = 5, .scale = -1}},
             .tokens = {1, 2, 3, 9},
             .state = some_bytes(301)};
    limits_ = {.session = slot_.session, .n_tokens = 4, .n_vocab = 10, .n_state_bytes = 301};
    file_ = bytes_of(slot_);
  }
  static std::vector<std::byte> bytes_of(const SavedSlot& slot) {
    std::vector<std::byte> file = slot_file_front(slot);
    const uint64_t checksum = slot_file_checksum(file, slot.state);
    append(file, slot.state);
    append(file, std::as_bytes(std::span(&checksum, 1)));
    return file;
  }

  SavedSlot slot_;
  SlotFileLimits limits_;
  std::vector<std::byte> file_;
};

TEST_F(SlotFile, GivesTheSlot) {
  ASSERT_OK_AND_ASSIGN(const SavedSlot read, parse_slot_file(file_, limits_));
  EXPECT_EQ(read.salt, slot_.salt);
  EXPECT_EQ(read.adapters, slot_.adapters);
  EXPECT_EQ(read.tokens, slot_.tokens);
  EXPECT_EQ(read.state, slot_.state);
  ASSERT_OK_AND_ASSIGN(const SavedSlot empty, parse_slot_file(bytes_of({.session = slot_.session}), limits_));
  EXPECT_TRUE(empty.tokens.empty() && empty.state.empty());
}

TEST_F(SlotFile, EveryFlippedBitAndEveryTruncationIsRefused) {
  for (size_t i = 0; i < file_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = file_;
      changed[i] ^= std::byte{1} << bit;
      ASSERT_FALSE(parse_slot_file(changed, limits_).has_value()) << "byte " << i << " bit " << bit;
    }
    ASSERT_FALSE(parse_slot_file({file_.begin(), file_.begin() + static_cast<ptrdiff_t>(i)}, limits_).has_value()) << i;
  }
}

TEST_F(SlotFile, LimitsHold) {
  SlotFileLimits limits = limits_;
  limits.n_tokens = 3;
  EXPECT_ERROR(parse_slot_file(file_, limits), "4 tokens, the context of a slot is 3");
  limits = limits_;
  limits.n_vocab = 9;
  EXPECT_ERROR(parse_slot_file(file_, limits), "token 9, want 0 to 8");
  limits = limits_;
  limits.n_state_bytes = 300;
  EXPECT_ERROR(parse_slot_file(file_, limits), "damaged (its header)");
  limits = limits_;
  limits.session = {};
  EXPECT_ERROR(parse_slot_file(file_, limits), "another model");
  EXPECT_ERROR(parse_slot_file(bytes_of({.session = slot_.session, .salt = std::string(257, 'a')}), limits_), "header");
  EXPECT_ERROR(parse_slot_file(bytes_of({.session = slot_.session, .tokens = {-1}}), limits_), "token -1");
  const std::vector<AdapterKey> adapters(kMostSlotAdapters + 1);
  EXPECT_ERROR(parse_slot_file(bytes_of({.session = slot_.session, .adapters = adapters}), limits_), "header");
}

TEST_F(SlotFile, TheLimitsThemselvesAreAllowed) {
  const SavedSlot least{.session = slot_.session};
  const std::vector<std::byte> file = bytes_of(least);
  EXPECT_EQ(file.size(), 72u);
  EXPECT_OK(parse_slot_file(file, limits_));
  EXPECT_ERROR(parse_slot_file({file.begin(), file.end() - 1}, limits_), "71 bytes, want at least 72");
  SavedSlot most = slot_;
  most.salt = std::string(kMostSaltBytes, 'a');
  most.adapters.assign(kMostSlotAdapters, {.fingerprint = 77, .scale = 0.5f});
  most.tokens = {0, 9, 0, 9};
  ASSERT_OK_AND_ASSIGN(const SavedSlot read, parse_slot_file(bytes_of(most), limits_));
  EXPECT_EQ(read.salt, most.salt);
  EXPECT_EQ(read.adapters, most.adapters);
  EXPECT_EQ(read.tokens, most.tokens);
}

// --- directories

TEST(FileNames, HaveOneComponent) {
  for (const char* name : {"a", "z", "A", "Z", "0", "9", "a.bin", "A-b_c.1", "-", "_"})
    EXPECT_TRUE(is_file_name(name)) << name;
  for (const char* name : {"", ".", "..", ".a", "a/b", "/a", "a b", "a\n", "\xC3\xA9", "a\\b", "a:b"})
    EXPECT_FALSE(is_file_name(name)) << name;
  EXPECT_TRUE(is_file_name(std::string(255, 'a')));
  EXPECT_FALSE(is_file_name(std::string(256, 'a')));
  EXPECT_FALSE(is_file_name(std::string_view("a\0b", 3)));
}

TEST(Directories, WriteWholeFilesOrNone) {
  const std::string path = temporary_path("dir");
  fs::remove_all(path);
  ASSERT_OK_AND_ASSIGN(const Directory directory, Directory::open_private(path));
  const std::vector<std::byte> bytes = some_bytes(1000);
  const std::array<std::span<const std::byte>, 2> parts = {std::span(bytes), std::span(bytes).first(10)};
  const FileTime time(std::chrono::seconds(1'000'000'000) + std::chrono::nanoseconds(5000));
  ASSERT_OK(directory.write_file("f", parts, time));
  ASSERT_OK_AND_ASSIGN(const auto info, directory.info("f"));
  EXPECT_EQ(info.n_bytes, 1010u);
  EXPECT_EQ(info.modified, time);
  ASSERT_OK(directory.make_directory("d"));
  ASSERT_OK(directory.make_directory("d"));
  EXPECT_FALSE(directory.write_file("d", parts).has_value());  // a directory is there
  EXPECT_FALSE(directory.write_file("no/f", parts).has_value());
  ASSERT_OK_AND_ASSIGN(auto names, directory.names_in(""));
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"d", "f"}));
  ASSERT_EQ(::symlink("f", (path + "/link").c_str()), 0);
  EXPECT_ERROR(directory.open_file("link"), "symbolic link");
  ASSERT_OK(directory.write_file("link", parts));  // in place of the link, not through it
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path + "/link")));
  EXPECT_FALSE(directory.remove_directory("no").has_value());
  EXPECT_ERROR(directory.names_in("no"), "No such file");
}

TEST(Directories, ThoseOfOthersAreRefused) {
  const std::string path = temporary_path("open");
  fs::remove_all(path);
  fs::create_directory(path);
  for (const fs::perms extra : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(path, fs::perms::owner_all | extra);
    EXPECT_ERROR(Directory::open_private(path), "other users may not write");
  }
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read);
  EXPECT_OK(Directory::open_private(path));
  EXPECT_ERROR(Directory::open_private(temporary_path("no/such")), "cannot make the directory");
  EXPECT_ERROR(Directory::open_private(write_temporary("plain", "x")), "cannot open the directory");
}

TEST(Directories, AFileThatIsNotCommittedLeavesNothing) {
  const std::string path = temporary_path("uncommitted");
  fs::remove_all(path);
  ASSERT_OK_AND_ASSIGN(const Directory directory, Directory::open_private(path));
  ASSERT_OK(directory.make_directory("d"));
  for (const std::string name : {"f", "d/f"}) {
    const std::string folder = name == "f" ? "" : "d";
    ASSERT_OK_AND_ASSIGN(auto file, directory.create_file(name));
    ASSERT_OK_AND_ASSIGN(auto names, directory.names_in(folder));
    std::erase(names, "d");
    ASSERT_EQ(names.size(), 1u) << "the temporary file is beside the file";
    EXPECT_TRUE(names[0].starts_with(Directory::kTemporaryPrefix)) << names[0];
    file.reset();
    ASSERT_OK_AND_ASSIGN(names, directory.names_in(folder));
    std::erase(names, "d");
    EXPECT_EQ(names.size(), 0u);
  }
}

TEST(Directories, OnlyOldTemporaryFilesAreStale) {
  const std::string path = temporary_path("stale");
  fs::remove_all(path);
  ASSERT_OK_AND_ASSIGN(const Directory directory, Directory::open_private(path));
  const FileTime old = std::chrono::sys_seconds(std::chrono::seconds(1'000'000'000));
  for (const std::string name : {".tessera-old", ".tessera-new", "old"}) {
    write_temporary("stale/" + name, "x");
    if (name.ends_with("old")) ASSERT_OK(directory.set_modified(name, old));
  }
  ASSERT_EQ(::symlink("old", (path + "/.tessera-link").c_str()), 0);
  ASSERT_OK(directory.set_modified(".tessera-link", old));
  directory.remove_stale_temporaries("", std::chrono::minutes(1));
  ASSERT_OK_AND_ASSIGN(auto names, directory.names_in(""));
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{".tessera-link", ".tessera-new", "old"}));
  EXPECT_FALSE(directory.set_modified("no", old).has_value());
}

TEST(Directories, WorkWithDescriptorZero) {
  const std::string path = temporary_path("zero");
  fs::remove_all(path);
  std::vector<std::string> names;
  {
    const ClosedInput closed;
    ASSERT_OK_AND_ASSIGN(const Directory directory, Directory::open_private(path));
    EXPECT_TRUE(ClosedInput::is_taken());
  }
  const bool had_input = ClosedInput::is_taken();
  ASSERT_OK_AND_ASSIGN(const Directory directory, Directory::open_private(path));
  {
    const ClosedInput closed;
    { ASSERT_OK_AND_ASSIGN(const Directory another, Directory::open(path)); }
    EXPECT_FALSE(ClosedInput::is_taken()) << "the directory is closed";
    {
      ASSERT_OK_AND_ASSIGN(const auto file, directory.create_file("f"));
      EXPECT_TRUE(ClosedInput::is_taken());
    }
    EXPECT_FALSE(ClosedInput::is_taken()) << "the file is closed";
    ASSERT_OK(directory.write_file("f", {}));
    ASSERT_OK_AND_ASSIGN(names, directory.names_in(""));
    EXPECT_FALSE(ClosedInput::is_taken()) << "the list is closed";
  }
  EXPECT_EQ(names, std::vector<std::string>{"f"});
  EXPECT_EQ(ClosedInput::is_taken(), had_input);
}

// --- the thread

TEST(DiskThreads, UrgentJobsComeFirstAndAllJobsRun) {
  std::string order;
  std::promise<void> go;
  {
    ASSERT_OK_AND_ASSIGN(const auto thread, DiskThread::create());
    std::promise<void> begun;
    thread->post(DiskThread::Lane::urgent, [&] {
      begun.set_value();
      go.get_future().wait();
    });
    begun.get_future().wait();
    for (const char c : {'a', 'b'}) thread->post(DiskThread::Lane::background, [&order, c] { order += c; });
    for (const char c : {'1', '2'}) thread->post(DiskThread::Lane::urgent, [&order, c] { order += c; });
    go.set_value();
  }
  EXPECT_EQ(order, "12ab");
}

// Whether a job of one lane begins at once after a job of another that takes a while. A busy machine may delay it, so
// there are many tries.
bool begins_at_once(DiskThread::Lane first, DiskThread::Lane next) {
  using SteadyClock = std::chrono::steady_clock;
  constexpr auto kWhile = std::chrono::milliseconds(20);
  for (int i = 0; i < 50; ++i) {
    const auto thread = DiskThread::create();
    if (!thread) return false;
    std::promise<SteadyClock::time_point> ended, begun;
    (*thread)->post(first, [&] {
      std::this_thread::sleep_for(kWhile);
      ended.set_value(SteadyClock::now());
    });
    (*thread)->post(next, [&] { begun.set_value(SteadyClock::now()); });
    if (begun.get_future().get() - ended.get_future().get() < 2 * kWhile) return true;
  }
  return false;
}

TEST(DiskThreads, OnlyBackgroundJobsLeaveTimeToOthers) {
  using enum DiskThread::Lane;
  EXPECT_TRUE(begins_at_once(urgent, urgent));
  EXPECT_TRUE(begins_at_once(urgent, background));
}

// The jobs are in the order of their lanes, so the urgent one is posted later.
TEST(DiskThreads, AnUrgentJobDoesNotWaitForThePause) {
  constexpr auto kWhile = std::chrono::milliseconds(20);
  bool is_early = false;
  for (int i = 0; i < 50 && !is_early; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto thread, DiskThread::create());
    std::promise<void> paused;
    std::promise<bool> ran;
    thread->post(DiskThread::Lane::background, [&] {
      std::this_thread::sleep_for(kWhile);
      paused.set_value();
    });
    paused.get_future().wait();
    const auto begin = std::chrono::steady_clock::now();
    thread->post(DiskThread::Lane::urgent,
                 [&] { ran.set_value(std::chrono::steady_clock::now() - begin < 2 * kWhile); });
    is_early = ran.get_future().get();
  }
  EXPECT_TRUE(is_early);
}

// --- the store

class DiskStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = temporary_path("store");
    fs::remove_all(path_);
  }
  void open(uint64_t limit = 1 << 30) { ASSERT_OK_AND_ASSIGN(store_, DiskStore::open(path_, limit)); }
  static BlockKey key(int32_t i) {
    BlockKey key{.root = root_digest({}, ""), .tokens = std::vector<int32_t>(64, i)};
    key.parent = key.root;
    key.digest = block_digest(key.parent, key.tokens);
    return key;
  }
  static FileTime time(int64_t s) { return FileTime(std::chrono::seconds(s)); }

  std::string path_;
  std::unique_ptr<DiskStore> store_;
  const std::vector<std::byte> payload_ = some_bytes(640);
};

TEST_F(DiskStoreTest, FilesSurviveAndAreFoundByName) {
  open();
  EXPECT_FALSE(store_->contains(key(1).digest));
  ASSERT_OK(store_->write(key(1), payload_, time(5)));
  EXPECT_TRUE(store_->contains(key(1).digest));
  open();
  EXPECT_TRUE(store_->contains(key(1).digest));
  ASSERT_OK_AND_ASSIGN(const auto read, store_->read(key(1), payload_.size()));
  EXPECT_EQ(read, payload_);
  EXPECT_EQ(store_->counters().n_bytes, 1000u);
  EXPECT_EQ(store_->read(key(2), payload_.size()).error().code(), ErrorCode::not_found);
  EXPECT_EQ(store_->counters().n_damaged_files, 0u);
}

TEST_F(DiskStoreTest, TheLeastRecentlyUsedFilesGo) {
  open(5000);
  for (int32_t i = 1; i <= 5; ++i) ASSERT_OK(store_->write(key(i), payload_, time(100 + i)));
  store_->mark_used(key(1), time(200));
  ASSERT_OK(store_->write(key(6), payload_, time(106)));
  EXPECT_EQ(store_->counters().n_bytes, 5000u);
  EXPECT_FALSE(store_->contains(key(2).digest));
  for (const int32_t i : {1, 3, 4, 5, 6}) EXPECT_TRUE(store_->contains(key(i).digest)) << i;
  EXPECT_EQ(store_->counters().n_evicted_files, 1u);
  open(5000);
  EXPECT_EQ(store_->counters().n_bytes, 5000u);
  EXPECT_ERROR(store_->write(key(7), some_bytes(5000), time(1)), "limit 5000");
  EXPECT_EQ(store_->counters().n_bytes, 5000u);
  open(3000);
  ASSERT_OK(store_->write(key(7), payload_, time(107)));
  for (const int32_t i : {1, 6, 7}) EXPECT_TRUE(store_->contains(key(i).digest)) << i;
  EXPECT_EQ(store_->counters().n_bytes, 3000u);
}

TEST_F(DiskStoreTest, AFileMayFillAllOfTheRoom) {
  open(1000);
  ASSERT_OK(store_->write(key(1), payload_, time(5)));
  ASSERT_OK(store_->write(key(2), payload_, time(6)));
  EXPECT_FALSE(store_->contains(key(1).digest));
  EXPECT_TRUE(store_->contains(key(2).digest));
  EXPECT_EQ(store_->counters().n_bytes, 1000u);
}

TEST_F(DiskStoreTest, ASixteenthBecomesFreeAtOnce) {
  open(32'000);
  for (int32_t i = 1; i <= 32; ++i) ASSERT_OK(store_->write(key(i), payload_, time(100 + i)));
  EXPECT_EQ(store_->counters().n_evicted_files, 0u);
  ASSERT_OK(store_->write(key(33), payload_, time(133)));
  EXPECT_EQ(store_->counters().n_evicted_files, 2u);
  EXPECT_EQ(store_->counters().n_bytes, 31'000u);
  EXPECT_FALSE(store_->contains(key(2).digest));
  EXPECT_TRUE(store_->contains(key(3).digest));
}

TEST_F(DiskStoreTest, OtherNamesAreNoFilesOfTheStore) {
  open();
  EXPECT_TRUE(store_->is_empty());
  ASSERT_OK(store_->write(key(1), payload_, time(5)));
  EXPECT_FALSE(store_->is_empty());
  const fs::path file = fs::path(path_) / key(1).path(), folder = file.parent_path(), root = folder.parent_path();
  const std::string hex = key(2).path().substr(20);
  const auto copy_to = [&](const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy_file(file, to);
  };
  copy_to(folder / hex.substr(1));                              // too short
  copy_to(folder / ("g" + hex.substr(1)));                      // no digit
  copy_to(root / "ag" / hex);                                   // likewise
  copy_to(root / "aaa" / hex);                                  // too long
  copy_to(fs::path(path_) / "0123456789abcdeg" / "aa" / hex);   // no digit
  copy_to(fs::path(path_) / "0123456789abcdeff" / "aa" / hex);  // too long
  fs::create_symlink(file, folder / hex);
  open();
  EXPECT_EQ(store_->counters().n_bytes, 1000u);
  EXPECT_FALSE(store_->contains(key(2).digest));
  EXPECT_EQ(store_->clear(), 1u);
  EXPECT_TRUE(store_->is_empty());
  EXPECT_TRUE(fs::is_symlink(folder / hex));
}

TEST_F(DiskStoreTest, AFileThatAnotherProcessHasRemovedIsForgotten) {
  open();
  for (const int32_t i : {1, 2}) ASSERT_OK(store_->write(key(i), payload_, time(5)));
  fs::remove(fs::path(path_) / key(1).path());
  for (const int32_t i : {1, 2}) store_->mark_used(key(i), time(6));
  EXPECT_FALSE(store_->contains(key(1).digest));
  EXPECT_TRUE(store_->contains(key(2).digest));
}

TEST_F(DiskStoreTest, AFileOfTheWrongSizeIsRemoved) {
  open();
  ASSERT_OK(store_->write(key(1), payload_, time(5)));
  EXPECT_ERROR(store_->read(key(1), payload_.size() + 64), "bytes, want");
  EXPECT_EQ(store_->counters().n_damaged_files, 1u);
  EXPECT_EQ(store_->counters().n_bytes, 0u);
  EXPECT_FALSE(store_->contains(key(1).digest));
  EXPECT_TRUE(fs::is_empty(path_));  // folders without files go as well
}

TEST_F(DiskStoreTest, ClearRemovesAllModelsFiles) {
  open();
  BlockKey other = key(2);
  other.root = root_digest({}, "other");
  ASSERT_OK(store_->write(key(1), payload_, time(5)));
  ASSERT_OK(store_->write(other, payload_, time(5)));
  EXPECT_EQ(store_->clear(), 2u);
  EXPECT_TRUE(fs::is_empty(path_));
  EXPECT_FALSE(store_->contains(key(1).digest));
}

TEST_F(DiskStoreTest, AFileThatCannotBeWrittenIsCounted) {
  open();
  write_temporary("store/" + key(1).path().substr(0, 16), "in place of a folder");
  EXPECT_FALSE(store_->write(key(1), payload_, time(5)).has_value());
  EXPECT_EQ(store_->counters().n_errors, 1u);
  EXPECT_FALSE(store_->contains(key(1).digest));
  EXPECT_EQ(store_->counters().n_bytes, 0u);
}

}  // namespace
}  // namespace tessera
