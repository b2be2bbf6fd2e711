#include "tessera/base/file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <stop_token>
#include <thread>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string fresh_path(const std::string& name) {
  const fs::path path = testing::temporary_dir() / name;
  fs::remove_all(path);
  return path.string();
}

int n_files_named_like(const std::string& path) {
  int n = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path()))
    n += entry.path().filename().string().starts_with(fs::path(path).filename().string()) ? 1 : 0;
  return n;
}

TEST(File, MissingFileIsNotFoundByName) {
  const auto file = File::open("/nonexistent/model.gguf");
  EXPECT_ERROR(file, "/nonexistent/model.gguf: cannot open: No such file");
  EXPECT_EQ(file.error().code(), ErrorCode::not_found);
}

TEST(File, DirectoryIsRefused) { EXPECT_ERROR(File::open("/tmp"), "/tmp: is a directory, want a regular file"); }

TEST(File, DeviceIsRefused) { EXPECT_ERROR(File::open("/dev/zero"), "is a pipe or device"); }

TEST(File, FifoIsRefusedWithoutWaitingForAWriter) {
  const std::string path = fresh_path("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_ERROR(File::open(path), "is a pipe or device");  // else it would wait forever
}

TEST(File, SymlinkLoopIsAnError) {
  const std::string path = fresh_path("loop");
  fs::create_symlink(path, path);
  EXPECT_ERROR(File::open(path), "cannot open");
}

TEST(File, ReadsAtOffsets) {
  ASSERT_OK_AND_ASSIGN(const File file, File::open(testing::write_temporary("digits", "0123456789")));
  EXPECT_EQ(file.size(), 10u);
  std::string text(4, ' ');
  ASSERT_OK(file.read_at(3, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "3456");
}

TEST(File, ReadPastTheEndIsAnError) {
  ASSERT_OK_AND_ASSIGN(const File file, File::open(testing::write_temporary("short", "0123")));
  std::string text(4, ' ');
  EXPECT_ERROR(file.read_at(2, std::as_writable_bytes(std::span(text))), "ends at byte 4");
  EXPECT_ERROR(file.read_at(1000, std::as_writable_bytes(std::span(text))), "ends at byte 1000");
}

TEST(File, MovedFileStaysOpen) {
  ASSERT_OK_AND_ASSIGN(File a, File::open(testing::write_temporary("a", "aaaa")));
  ASSERT_OK_AND_ASSIGN(File b, File::open(testing::write_temporary("b", "bb")));
  a = std::move(b);
  const File c = std::move(a);
  EXPECT_EQ(c.size(), 2u);
  std::string text(2, ' ');
  ASSERT_OK(c.read_at(0, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "bb");
}

TEST(MappedFile, ShowsTheBytes) {
  ASSERT_OK_AND_ASSIGN(const File file, File::open(testing::write_temporary("mapped", "hello")));
  ASSERT_OK_AND_ASSIGN(const auto map, MappedFile::map(file));
  EXPECT_EQ(text_of(map->bytes()), "hello");
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  ASSERT_OK_AND_ASSIGN(const File file, File::open(testing::write_temporary("empty", "")));
  ASSERT_OK_AND_ASSIGN(const auto map, MappedFile::map(file));
  EXPECT_TRUE(map->bytes().empty());
}

TEST(MappedFile, AddressIsTracedToItsPathWhileMapped) {
  const std::string path = testing::write_temporary("traced", std::string(10000, 'x'));
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  ASSERT_OK_AND_ASSIGN(auto map, MappedFile::map(file));
  const std::byte* data = map->bytes().data();
  EXPECT_STREQ(find_mapped_path(data), path.c_str());
  EXPECT_STREQ(find_mapped_path(data + 9999), path.c_str());
  EXPECT_EQ(find_mapped_path(data + 10000), nullptr);
  EXPECT_EQ(find_mapped_path(&path), nullptr);
  map.reset();
  EXPECT_EQ(find_mapped_path(data), nullptr);
}

extern "C" void replace_map(int, siginfo_t* info, void*) {
  if (!replace_lost_map(info->si_addr)) std::signal(SIGBUS, SIG_DFL);
}

TEST(MappedFile, AFileThatShrinksBecomesZeros) {
  const std::string path = testing::write_temporary("shrinking", std::string(10000, 'x'));
  const std::string other_path = testing::write_temporary("staying", std::string(10000, 'y'));
  ASSERT_OK_AND_ASSIGN(const File file, File::open(path));
  ASSERT_OK_AND_ASSIGN(const File other_file, File::open(other_path));
  ASSERT_OK_AND_ASSIGN(auto map, MappedFile::map(file));
  ASSERT_OK_AND_ASSIGN(const auto other, MappedFile::map(other_file));
  struct sigaction action {
  }, old{};
  action.sa_sigaction = replace_map;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGBUS, &action, &old), 0);
  std::filesystem::resize_file(path, 100);
  const volatile std::byte* bytes = map->bytes().data();
  const auto byte_at = [&](size_t i) { return std::to_integer<char>(bytes[i]); };
  EXPECT_FALSE(map->is_lost());
  EXPECT_EQ(byte_at(0), 'x');
  EXPECT_EQ(byte_at(9000), '\0');
  EXPECT_EQ(byte_at(0), '\0');
  EXPECT_EQ(byte_at(9999), '\0');
  EXPECT_TRUE(map->is_lost());
  EXPECT_FALSE(other->is_lost());
  EXPECT_EQ(text_of(other->bytes()), std::string(10000, 'y'));
  ::sigaction(SIGBUS, &old, nullptr);
  map.reset();
  ASSERT_OK_AND_ASSIGN(map, MappedFile::map(other_file));
  EXPECT_FALSE(map->is_lost());
  EXPECT_FALSE(replace_lost_map(&path));
}

TEST(MappedFile, DiscardedPagesAreReadAgain) {
  const std::string text(20000, 'y');
  ASSERT_OK_AND_ASSIGN(const File file, File::open(testing::write_temporary("discarded", text)));
  ASSERT_OK_AND_ASSIGN(const auto map, MappedFile::map(file));
  map->discard(100, 19000);
  map->discard(0, 1);
  EXPECT_EQ(text_of(map->bytes()), text);
}

TEST(ReadFile, ReadsUpToItsLimit) {
  const std::string path = testing::write_temporary("ten", "0123456789");
  EXPECT_EQ(read_file(path, 10).value(), "0123456789");
  EXPECT_ERROR(read_file(path, 9), "longer than 9 bytes");
}

TEST(ReadFile, EndlessDeviceStopsAtTheLimit) {
  EXPECT_ERROR(read_file("/dev/zero", 1 << 20), "longer than 1048576 bytes");
}

TEST(ReadFile, DirectoryIsAnError) { EXPECT_ERROR(read_file("/tmp", 100), "/tmp: cannot read: Is a directory"); }

TEST(ReadFile, ReadsFilesWithoutASize) { EXPECT_FALSE(read_file("/proc/self/stat", 1 << 16)->empty()); }

TEST(AtomicFile, CommitReplacesTheOldFile) {
  const std::string path = testing::write_temporary("replaced", "old and longer");
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ASSERT_OK(file.write(bytes_of("new")));
  EXPECT_EQ(testing::read_all(path), "old and longer");
  ASSERT_OK(file.commit());
  EXPECT_EQ(testing::read_all(path), "new");
  EXPECT_EQ(n_files_named_like(path), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const std::string path = fresh_path("abandoned");
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::create(path));
    ASSERT_OK(file.write(bytes_of("half")));
    EXPECT_EQ(n_files_named_like(path), 1);
  }
  EXPECT_EQ(n_files_named_like(path), 0);
}

TEST(AtomicFile, WritesAtOffsetsAndAppends) {
  const std::string path = fresh_path("offsets");
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ASSERT_OK(file.write(bytes_of("....tail")));
  ASSERT_OK(file.write_at(0, bytes_of("head")));
  EXPECT_EQ(file.size(), 8u);
  ASSERT_OK(file.write(bytes_of("!")));
  ASSERT_OK(file.commit());
  EXPECT_EQ(testing::read_all(path), "headtail!");
}

TEST(AtomicFile, HasTheModeThatTheUmaskAllows) {
  const std::string path = fresh_path("mode");
  const mode_t before = ::umask(027);
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::create(path));
    ASSERT_OK(file.commit());
  }
  ::umask(before);
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
}

TEST(ReadFile, WaitForAPipeEndsWhenASignalCancels) {
  const std::string path = (testing::temporary_dir() / "no_writer").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  struct sigaction wake {
  }, before{};
  wake.sa_handler = [](int) {};  // without SA_RESTART: a wait returns
  ASSERT_EQ(::sigaction(SIGUSR1, &wake, &before), 0);
  CancelToken cancel;
  auto reading = std::async(std::launch::async, [&] {
    const auto self = ::pthread_self();
    // A signal may arrive before the wait begins, so signals are sent until the wait has ended.
    std::jthread caller([&, self](std::stop_token stop) {
      cancel.cancel();
      for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        ::pthread_kill(self, SIGUSR1);
    });
    return read_file(path, 100, &cancel);
  });
  const auto text = reading.get();
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code(), ErrorCode::cancelled);
}

TEST(AtomicFile, RefusesDirectoriesAndDevices) {
  EXPECT_ERROR(AtomicFile::create("/tmp"), "/tmp: exists and is not a regular file");
  EXPECT_ERROR(AtomicFile::create("/dev/full"), "/dev/full: exists and is not a regular file");
  EXPECT_ERROR(AtomicFile::create("/nonexistent/out"), "/nonexistent/out: cannot create: No such file");
}

TEST(AtomicFile, FullDiskIsAnErrorAndKeepsTheOldFile) {
  const std::string path = testing::write_temporary("disk_full", "old");
  // A limit on the file size refuses the write as a full disk does. The accompanying signal is ignored.
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  Result<> written;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto file = AtomicFile::create(path);
    if (file) written = file->write(bytes_of(std::string(5000, 'z')));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_ERROR(written, path + ": cannot write");
  EXPECT_EQ(testing::read_all(path), "old");
  EXPECT_EQ(n_files_named_like(path), 1);
}

}  // namespace
}  // namespace tessera
