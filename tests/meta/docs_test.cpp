// Rules for the Markdown files in the root folder and in docs/: limited line length, and links to existing files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxColumns = 120;

std::vector<fs::path> pages() {
  std::vector<fs::path> all;
  for (const char* folder : {".", "docs"})
    for (const auto& entry : fs::directory_iterator(fs::path(testing::source_dir()) / folder))
      if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

size_t columns(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Returns the number of the first line that is too long, or 0. Tables and examples (indented or fenced) have no limit.
int long_line(const std::string& text) {
  std::istringstream lines(text);
  int number = 0;
  bool is_example = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("```")) is_example = !is_example;
    if (!is_example && !line.starts_with("|") && !line.starts_with("    ") && columns(line) > kMaxColumns)
      return number;
  }
  return 0;
}

TEST(Docs, LinesHaveAtMost120Columns) {
  EXPECT_GT(pages().size(), 10u);
  for (const fs::path& page : pages()) {
    const int line = long_line(testing::read_all(page));
    EXPECT_EQ(line, 0) << page << ":" << line << ": more than " << kMaxColumns << " columns";
  }
}

TEST(Docs, LinksLeadToFiles) {
  const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  for (const fs::path& page : pages()) {
    const std::string text = testing::read_all(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1];
      if (target.find("://") != std::string::npos) continue;
      EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
    }
  }
}

// `tessera/tensor/dtype.def` or `tensor/dtype.def`, but not `tessera/models/NAME.cpp`.
TEST(Docs, NamedFilesExist) {
  const std::regex file(R"(`([a-z_]+/[a-z0-9_./]+\.(cpp|h|def|comp|glsl|md|py|sh|cmake|json))`)");
  const fs::path root = testing::source_dir();
  size_t n_named = 0;
  for (const fs::path& page : pages()) {
    const std::string text = testing::read_all(page);
    for (std::sregex_iterator it(text.begin(), text.end(), file), end; it != end; ++it, ++n_named) {
      const std::string name = (*it)[1];
      EXPECT_TRUE(fs::exists(root / name) || fs::exists(root / "tessera" / name)) << page << " names " << name;
    }
  }
  EXPECT_GT(n_named, 100u);
}

TEST(Docs, TheIndexListsEveryPage) {
  const std::string index = testing::read_all(fs::path(testing::source_dir()) / "docs/index.md");
  for (const fs::path& page : pages()) {
    if (page.parent_path().filename() != "docs" || page.filename() == "index.md") continue;
    EXPECT_NE(index.find("(" + page.filename().string() + ")"), std::string::npos) << page;
  }
}

}  // namespace
}  // namespace tessera
