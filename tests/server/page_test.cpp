// The table of the chat page's files. The page itself is tested in tessera/server/page/source/tests.
#include "tessera/server/page/page.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/testing.h"

namespace tessera::server {
namespace {

// The size of the inflated data, as gzip states it in the last four bytes (RFC 1952).
size_t stated_bytes(std::string_view gzip) {
  size_t n = 0;
  for (size_t i = 0; i < 4; ++i) n |= size_t{static_cast<unsigned char>(gzip[gzip.size() - 4 + i])} << (8 * i);
  return n;
}

TEST(PageFiles, AreTheBuiltFiles) {
  for (const PageFile& file : page_files()) {
    const std::string name = testing::source_dir() + std::string("/tessera/server/page/built") + std::string(file.path);
    EXPECT_EQ(file.gzip, testing::read_all(name + ".gz")) << file.path;
  }
}

TEST(PageFiles, AreCompressedWithoutATime) {
  for (const PageFile& file : page_files()) {
    ASSERT_GT(file.gzip.size(), 18u) << file.path;
    EXPECT_EQ(file.gzip.substr(0, 8), std::string_view("\x1f\x8b\x08\0\0\0\0\0", 8)) << file.path;
    EXPECT_EQ(stated_bytes(file.gzip), file.n_inflated) << file.path;
  }
}

TEST(PageFiles, FitTheirBudget) {
  size_t n_bytes = 0;
  for (const PageFile& file : page_files()) n_bytes += file.gzip.size();
  EXPECT_LE(n_bytes, size_t{250} << 10);
}

TEST(PageFiles, HaveQuotedWeakTags) {
  for (const PageFile& file : page_files()) {
    EXPECT_TRUE(file.etag.starts_with("W/\"") && file.etag.ends_with('"')) << file.path;
  }
}

TEST(PageFiles, OnlyHashedNamesAreImmutable) {
  for (const PageFile& file : page_files())
    EXPECT_EQ(file.is_immutable, file.path.starts_with("/assets/")) << file.path;
}

TEST(PageFiles, TheRootIsTheIndex) {
  const PageFile* index = find_page_file("/");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->path, "/index.html");
  EXPECT_EQ(index->content_type, "text/html; charset=utf-8");
}

TEST(PageFiles, AreFoundByTheirWholePath) {
  for (const char* path : {"/sw.js", "/manifest.webmanifest", "/_app/version.json", "/icon.svg"})
    EXPECT_NE(find_page_file(path), nullptr) << path;
  for (const char* path : {"", "/sw", "/sw.js.gz", "/assets/", "sw.js", "/assets/../sw.js"})
    EXPECT_EQ(find_page_file(path), nullptr) << path;
}

}  // namespace
}  // namespace tessera::server
