// What must hold for the source tree as a whole: files of a length that can be read, a folder of tests for each folder
// of sources, includes that follow the layering table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

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

TEST(Tree, FilesHaveAtMost600Lines) {
  constexpr int64_t kMaxLines = 600;
  EXPECT_GT(sources().size(), 100u);  // this is the tree
  for (const fs::path& path : sources()) {
    const std::string text = testing::read_all(path);
    if (text.substr(0, 400).find("enerated") != std::string::npos) continue;
    EXPECT_LE(std::ranges::count(text, '\n'), kMaxLines) << path;
  }
}

TEST(Tree, EveryHeaderIsIncludedOnce) {
  for (const fs::path& path : sources()) {
    if (path.extension() != ".h") continue;
    EXPECT_NE(testing::read_all(path).find("#pragma once\n"), std::string::npos) << path;
  }
}

TEST(Tree, EveryFolderHasItsTests) {
  for (const auto& entry : fs::directory_iterator(fs::path(testing::source_dir()) / "tessera")) {
    const std::string folder = entry.path().filename();
    if (!entry.is_directory() || folder == "app") continue;  // app: exercised by whatever opens a registry
    const fs::path tests = fs::path(testing::source_dir()) / "tests" / folder;
    bool has_tests = false;
    if (fs::exists(tests))
      for (const auto& file : fs::directory_iterator(tests)) has_tests |= file.path().string().ends_with("_test.cpp");
    EXPECT_TRUE(has_tests) << "tessera/" << folder << " has no tests/" << folder << "/*_test.cpp";
  }
}

TEST(Tree, IncludesFollowTheLayers) {
  TESSERA_SHARED_OR_SKIP(tool, "tools/layers.py");
  const std::string report = testing::temporary_dir() / "layers";
  const int status =
      std::system(("python3 '" + tool + "' '" + testing::source_dir() + "' > '" + report + "' 2>&1").c_str());
  EXPECT_EQ(status, 0) << testing::read_all(report);
}

}  // namespace
}  // namespace tessera
