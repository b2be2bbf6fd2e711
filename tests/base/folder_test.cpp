#include "tessera/base/folder.h"

#include <algorithm>
#include <filesystem>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(Folder, HasTheNamesOfAllEntries) {
  const fs::path folder = testing::temporary_path("folder");
  fs::create_directories(folder / "inner");
  testing::write_temporary("folder/a file", "");
  testing::write_temporary("folder/.hidden", "");
  ASSERT_OK_AND_ASSIGN(auto names, names_in_folder(folder.string(), 3));
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "a file", "inner"}));
  ASSERT_OK_AND_ASSIGN(names, names_in_folder((folder / "inner").string(), 0));
  EXPECT_TRUE(names.empty());
}

TEST(Folder, WhatCannotBeListedIsAnError) {
  const std::string folder = testing::temporary_path("full");
  fs::create_directories(folder);
  const std::string file = testing::write_temporary("full/file", "");
  const auto full = names_in_folder(folder, 0);
  EXPECT_ERROR(full, folder + ": more than 0 entries");
  EXPECT_EQ(full.error().code(), ErrorCode::limit);
  const auto absent = names_in_folder(folder + "/absent", 9);
  EXPECT_ERROR(absent, folder + "/absent: No such file or directory");
  EXPECT_EQ(absent.error().code(), ErrorCode::not_found);
  const auto no_folder = names_in_folder(file, 9);
  EXPECT_ERROR(no_folder, file + ": Not a directory");
  EXPECT_EQ(no_folder.error().code(), ErrorCode::io);
}

}  // namespace
}  // namespace tessera
