// Rules of style that a test can check: comments begin with a noun or a verb, and knowledge of all operations or
// formats is in tables. tree_test.cpp checks that library messages name options.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// f(path below the source directory, number, line) for each line of the sources below `top`.
template <class F>
void for_each_line(const std::string& top, F f) {
  size_t n_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(testing::source_dir()) / top)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".comp" && extension != ".glsl") continue;
    ++n_files;
    std::istringstream lines(testing::read_all(entry.path()));
    const std::string path = fs::relative(entry.path(), testing::source_dir());
    int number = 0;
    for (std::string line; std::getline(lines, line);) f(path, ++number, line);
  }
  EXPECT_GT(n_files, 100u) << top;
}

std::string place(const std::string& path, int number) { return path + ":" + std::to_string(number); }

bool is_comment(const std::string& line) {
  const size_t at = line.find_first_not_of(' ');
  return at != std::string::npos && line.compare(at, 2, "//") == 0;
}

// A comment that begins with a relative clause has no noun that says what it is about.
TEST(Language, CommentsBeginWithANounOrAVerb) {
  const std::regex clause(R"(^\s*///?\s+(What|Who|Those|That of|Where|So many|As many)\b)");
  std::string before;
  for_each_line("tessera", [&](const std::string& path, int number, const std::string& line) {
    const bool begins = !is_comment(before);
    EXPECT_FALSE(begins && std::regex_search(line, clause)) << place(path, number) << ": " << line;
    before = line;
  });
}

// A case per operation or format belongs into the row's own file: graph/ops.def, tensor/dtype.def.
TEST(Language, NoSwitchOverOperationsOrFormats) {
  constexpr int kFew = 4;  // types of plain numbers
  const std::regex label(R"(case (Op|DType)::)");
  std::string file;
  int n = 0;
  for_each_line("tessera", [&](const std::string& path, int number, const std::string& line) {
    if (path != file) n = 0;
    file = path;
    n += std::regex_search(line, label) ? 1 : 0;
    EXPECT_LE(n, kFew) << place(path, number) << ": " << line;
  });
}

}  // namespace
}  // namespace tessera
