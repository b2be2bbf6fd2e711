// Rules for the whole source tree: a test folder for each source folder, includes that follow the layering table, and
// limited file sizes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sources() {
  std::vector<fs::path> all;
  for (const char* top : {"tessera", "tests", "bench", "fuzz"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(testing::source_dir()) / top))
      if (entry.is_regular_file() && std::set<std::string>{".h", ".cpp"}.contains(entry.path().extension()))
        all.push_back(entry.path());
  return all;
}

TEST(Tree, EveryHeaderIsIncludedOnce) {
  EXPECT_GT(sources().size(), 100u);  // the source tree was found
  for (const fs::path& path : sources()) {
    if (path.extension() != ".h") continue;
    EXPECT_NE(testing::read_all(path).find("#pragma once\n"), std::string::npos) << path;
  }
}

TEST(Tree, EveryFolderHasItsTests) {
  for (const auto& entry : fs::directory_iterator(fs::path(testing::source_dir()) / "tessera")) {
    const std::string folder = entry.path().filename();
    if (!entry.is_directory() || folder == "app") continue;  // app: covered by all tests that open a registry
    const fs::path tests = fs::path(testing::source_dir()) / "tests" / folder;
    bool has_tests = false;
    if (fs::exists(tests))
      for (const auto& file : fs::directory_iterator(tests)) has_tests |= file.path().string().ends_with("_test.cpp");
    EXPECT_TRUE(has_tests) << "tessera/" << folder << " has no tests/" << folder << "/*_test.cpp";
  }
}

// Programs other than the command line show the library's messages too: they name options ("option n_ctx"), and the
// command line has a flag for each. The server's messages name flags, because only the command line starts it.
TEST(Tree, MessagesOfTheLibraryNameOptionsAndNoFlags) {
  const fs::path tessera = fs::path(testing::source_dir()) / "tessera";
  const std::string table = testing::read_all(tessera / "cli" / "option_flags.cpp");
  const std::regex literal("\"(?:[^\"\\\\\n]|\\\\.)*\""), flag("[\" (]--[a-z]|[ (]-(?:c|b|ngl|ncmoe|t|m|ub)\\b"),
      option("option ([a-z_.]*[a-z])");
  size_t n_options = 0;
  for (const fs::path& path : sources()) {
    const auto is_below = [&](const fs::path& folder) { return path.string().starts_with(folder.string()); };
    if (!is_below(tessera) || is_below(tessera / "cli") || is_below(tessera / "server")) continue;
    std::istringstream lines(testing::read_all(path));
    for (std::string line; std::getline(lines, line);) {
      const std::string code = line.substr(0, line.find("// "));
      for (std::sregex_iterator text(code.begin(), code.end(), literal), end; text != end; ++text) {
        const std::string found = text->str();
        EXPECT_FALSE(std::regex_search(found, flag)) << path << ": " << found;
        for (std::sregex_iterator name(found.begin(), found.end(), option); name != end; ++name, ++n_options)
          EXPECT_NE(table.find("{\"" + (*name)[1].str() + "\", \"-"), std::string::npos) << path << ": " << found;
      }
    }
  }
  EXPECT_GE(n_options, 10u);
}

int run_script(const std::string& script, const std::string& arguments, const std::string& report) {
  const std::string command = "python3 '" + testing::source_dir() + "/scripts/" + script + "' " + arguments;
  return std::system((command + " > '" + report + "' 2>&1").c_str());
}

// The checker also limits the length of files.
TEST(Tree, IncludesFollowTheLayers) {
  const std::string report = testing::temporary_dir() / "layers";
  EXPECT_EQ(run_script("check_layers.py", "", report), 0) << testing::read_all(report);
}

TEST(Tree, TheCheckOfLayersFindsViolations) {
  const std::string report = testing::temporary_dir() / "self_test";
  EXPECT_EQ(run_script("check_layers.py", "--self-test", report), 0) << testing::read_all(report);
}

TEST(Tree, AnAdditionTouchesFewFiles) {
  const std::string report = testing::temporary_dir() / "cost";
  EXPECT_EQ(run_script("cost_of_additions.py", "--check", report), 0) << testing::read_all(report);
}

}  // namespace
}  // namespace tessera
