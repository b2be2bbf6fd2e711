// The history of sent texts, in memory and in a file that several chats share.
#include "tessera/cli/line_history.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> entries_of(const LineHistory& history) {
  std::vector<std::string> all;
  for (size_t i = 0; i < history.size(); ++i) all.push_back(history.at(i));
  return all;
}

std::vector<std::string> entries_in(const std::string& path) {
  const auto history = LineHistory::open(path);
  EXPECT_OK(history);
  return history ? entries_of(*history) : std::vector<std::string>();
}

// A path in a new folder.
std::string new_history(const std::string& name) {
  return testing::temporary_path("history_" + name) + "/deep/history";
}

using Entries = std::vector<std::string>;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 0777;
}

TEST(LineHistory, KeepsEntriesInAPrivateFile) {
  const std::string path = new_history("private");
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(path));
  EXPECT_EQ(history.size(), 0u);
  ASSERT_OK(history.add("one"));
  ASSERT_OK(history.add("two\nlines \\n and \\"));
  EXPECT_EQ(entries_in(path), (Entries{"one", "two\nlines \\n and \\"}));
  EXPECT_EQ(testing::read_all(path), "one\ntwo\\nlines \\\\n and \\\\\n");
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(fs::path(path).parent_path()), 0700u);
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}), 1);  // no file is left beside it
}

TEST(LineHistory, SkipsBlankStartsAndRepetitions) {
  LineHistory history;
  for (const char* entry : {"one", "one", " secret", "\tsecret", "", "two", "one"}) ASSERT_OK(history.add(entry));
  EXPECT_EQ(entries_of(history), (Entries{"one", "two", "one"}));
}

TEST(LineHistory, KeepsTheEntriesOfAChatBesideIt) {
  const std::string path = new_history("beside");
  ASSERT_OK_AND_ASSIGN(LineHistory first, LineHistory::open(path));
  ASSERT_OK_AND_ASSIGN(LineHistory second, LineHistory::open(path));
  ASSERT_OK(first.add("a"));
  ASSERT_OK(second.add("b"));
  ASSERT_OK(first.add("c"));
  EXPECT_EQ(entries_in(path), (Entries{"a", "b", "c"}));
  EXPECT_EQ(entries_of(first), (Entries{"a", "c"}));  // each chat browses its own
}

TEST(LineHistory, LosesNothingWhenChatsWriteAtOnce) {
  const std::string path = new_history("threads");
  std::vector<std::thread> chats;
  for (int chat = 0; chat < 4; ++chat)
    chats.emplace_back([&path, chat] {
      auto history = LineHistory::open(path);
      for (int i = 0; history && i < 20; ++i) EXPECT_OK(history->add(std::to_string(chat) + "." + std::to_string(i)));
    });
  for (std::thread& chat : chats) chat.join();
  EXPECT_EQ(entries_in(path).size(), 80u);
}

TEST(LineHistory, HasLimits) {
  const std::string path = new_history("limits");
  fs::create_directories(fs::path(path).parent_path());
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += std::to_string(i) + "\n";
  std::ofstream(path) << lines;
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(path));
  EXPECT_EQ(history.size(), kMaxHistoryEntries);
  EXPECT_EQ(history.at(0), "2000");
  ASSERT_OK(history.add("new"));
  EXPECT_EQ(history.size(), kMaxHistoryEntries);
  ASSERT_OK(history.add(std::string(kMaxHistoryEntryBytes + 1, 'x')));
  EXPECT_EQ(entries_in(path).back(), "new");
  EXPECT_EQ(entries_in(path).size(), kMaxHistoryEntries);
}

TEST(LineHistory, ReadsTheEndOfALongFile) {
  const std::string path = new_history("long");
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << std::string(kMaxHistoryBytes + 5, 'x') << "\n" << std::string(60000, 'y') << "\nlast\n";
  EXPECT_EQ(entries_in(path), (Entries{std::string(60000, 'y'), "last"}));
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(path));
  for (int i = 0; i < 20; ++i) ASSERT_OK(history.add(std::to_string(i) + std::string(60000, 'z')));
  EXPECT_LE(fs::file_size(path), kMaxHistoryBytes);
  EXPECT_EQ(entries_in(path).size(), 17u);
}

TEST(LineHistory, SurvivesAnyBytes) {
  const std::string path = new_history("bytes");
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << "\xff\xfe\n\n\\\n\\q" << std::string("\0\n", 2) << "no end";
  EXPECT_EQ(entries_in(path), (Entries{"\ufffd\ufffd", "\\", std::string("q\0", 2), "no end"}));
}

TEST(LineHistory, ReportsAFileThatItCannotUse) {
  const std::string folder = testing::temporary_path("history_folder");
  fs::create_directories(folder);
  EXPECT_ERROR(LineHistory::open(folder), "not a regular file");
  const std::string file = testing::write_temporary("history_file", "x");
  EXPECT_ERROR(LineHistory::open(file + "/history"), "cannot open");
  const std::string path = testing::temporary_path("history_lost") + "/history";
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(path));
  std::ofstream(testing::temporary_path("history_lost")) << "a file where the folder should be";
  EXPECT_ERROR(history.add("one"), "history");
  EXPECT_EQ(entries_of(history), Entries{"one"});  // the chat goes on with it
}

TEST(LineHistory, ReplacesTheTargetOfALink) {
  const std::string target = testing::write_temporary("history_target", "old\n");
  const std::string link = testing::temporary_path("history_link");
  fs::create_symlink(target, link);
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(link));
  ASSERT_OK(history.add("new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(testing::read_all(target), "old\nnew\n");
}

TEST(LineHistory, HasNoFileWithoutAPath) {
  ASSERT_OK_AND_ASSIGN(LineHistory history, LineHistory::open(""));
  ASSERT_OK(history.add("one"));
  EXPECT_EQ(entries_of(history), Entries{"one"});
}

TEST(LineHistory, FindsEntries) {
  LineHistory history;
  for (const char* entry : {"make a", "take b", "make c"}) ASSERT_OK(history.add(entry));
  EXPECT_EQ(history.find_prefix_before(3, "make"), 2u);
  EXPECT_EQ(history.find_prefix_before(2, "make"), 0u);
  EXPECT_EQ(history.find_prefix_before(0, "make"), std::nullopt);
  EXPECT_EQ(history.find_prefix_after(0, "make"), 2u);
  EXPECT_EQ(history.find_prefix_after(2, ""), std::nullopt);
  EXPECT_EQ(history.find_part_before(3, "ke b"), 1u);
  EXPECT_EQ(history.find_part_before(1, "ke b"), std::nullopt);
}

TEST(LineHistory, HasItsPlaceFromTheEnvironment) {
  const char* old = std::getenv("XDG_STATE_HOME");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(LineHistory::default_path(), "/state/tessera/history");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(LineHistory::default_path(), std::string(std::getenv("HOME")) + "/.local/state/tessera/history");
  old == nullptr ? ::unsetenv("XDG_STATE_HOME") : ::setenv("XDG_STATE_HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace tessera::cli
