// The disk cache of compiled shaders: stored and ignored entries, and that no state of the cache can fail a run.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/vulkan/disk_cache.h"
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;
// An empty folder.
struct TempDir {
  explicit TempDir(const std::string& name) : path(temporary_dir() / name) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  std::string path;
};

using vulkan::CacheKey;
using vulkan::DiskCache;

const CacheKey kKey{.device = {1, 2, 3}, .driver = {4, 5}, .driver_version = 6, .shaders = 7};

Bytes some_bytes() {
  Bytes bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 11);
  return bytes;
}

TEST(VulkanDiskCache, WhatWasStoredComesBackUnderTheSameKey) {
  const TempDir dir("cache0");
  const DiskCache cache(dir.path + "/a/b", kKey);
  EXPECT_TRUE(cache.load().empty());
  ASSERT_TRUE(cache.store(some_bytes()));
  EXPECT_EQ(cache.load(), some_bytes());
  ASSERT_TRUE(cache.store(Bytes(3)));
  EXPECT_EQ(cache.load(), Bytes(3));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path + "/a/b"), {}), 1);  // no temporary is left

  std::vector<CacheKey> others(3, kKey);
  others[0].driver[15] = 1;
  others[1].driver_version = 8;
  others[2].shaders = 8;
  for (const CacheKey& other : others) {
    const DiskCache same_place(dir.path + "/a/b", other);
    EXPECT_EQ(same_place.path(), cache.path());
    EXPECT_TRUE(same_place.load().empty());
  }
  CacheKey other_device = kKey;
  other_device.device[0] = 9;
  EXPECT_NE(DiskCache(dir.path, other_device).path(), DiskCache(dir.path, kKey).path());
}

TEST(VulkanDiskCache, ADamagedFileIsIgnored) {
  const TempDir dir("cache1");
  const DiskCache cache(dir.path, kKey);
  ASSERT_TRUE(cache.store(some_bytes()));
  const std::string good = read_all(cache.path());
  const auto expect_ignored = [&](const std::string& bytes) {
    std::ofstream(cache.path(), std::ios::binary) << bytes;
    EXPECT_TRUE(cache.load().empty()) << bytes.size();
  };
  for (size_t i = 0; i < good.size(); i += i < 80 ? 1 : 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    expect_ignored(bad);
  }
  for (const size_t n : {size_t{0}, size_t{7}, size_t{71}, size_t{72}, good.size() - 1})
    expect_ignored(good.substr(0, n));
  expect_ignored(good + "x");
}

TEST(VulkanDiskCache, AFolderThatCannotBeWrittenIsNoError) {
  const TempDir dir("cache2");
  std::ofstream(dir.path + "/file") << "x";
  EXPECT_FALSE(DiskCache(dir.path + "/file", kKey).store(some_bytes()));
  EXPECT_TRUE(DiskCache(dir.path + "/file", kKey).load().empty());
  EXPECT_FALSE(DiskCache("", kKey).store(some_bytes()));
  EXPECT_TRUE(DiskCache("", kKey).load().empty());
  const DiskCache cache(dir.path, kKey);
  std::filesystem::create_directory(cache.path());
  EXPECT_FALSE(cache.store(some_bytes()));
  EXPECT_TRUE(cache.load().empty());
}

TEST(VulkanDiskCache, TheFolderIsTheUsers) {
  const char* kept = std::getenv("XDG_CACHE_HOME");
  const std::string before = kept == nullptr ? "" : kept;
  ::setenv("XDG_CACHE_HOME", "/x/y", 1);
  EXPECT_EQ(vulkan::user_cache_folder(), "/x/y/tessera");
  for (const char* ignored : {"", "relative"}) {
    ::setenv("XDG_CACHE_HOME", ignored, 1);
    const char* home = std::getenv("HOME");
    EXPECT_EQ(vulkan::user_cache_folder(), home == nullptr ? "" : std::string(home) + "/.cache/tessera");
  }
  if (kept == nullptr)
    ::unsetenv("XDG_CACHE_HOME");
  else
    ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

using VulkanCache = GpuTest;

TEST_F(VulkanCache, ADeviceKeepsItsShadersAndWorksWithWhateverTheFileHolds) {
  const TempDir dir("cache3");
  vulkan::Options options = validated_options();
  options.cache_folder = dir.path + "/cache";
  const TestGraph graph{
      .tensors = {},
      .build = [](GraphBuilder& b, const auto&) { b.output(b.scale(b.input("x", DType::f32, {2}), 2.0f), "y"); },
      .inputs = {{"x", bytes_of<float>({1, 3})}}};
  const auto run = [&] {
    const auto devices = vulkan::find_devices(options);
    ASSERT_FALSE(devices.empty());
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*devices.front(), graph));
    EXPECT_EQ(values_of<float>(got.outputs.at("y")), (std::vector<float>{2, 6}));
  };
  run();
  const std::filesystem::directory_iterator files(*options.cache_folder), none;
  ASSERT_NE(files, none);
  const std::string path = files->path();
  const std::string stored = read_all(path);
  EXPECT_GT(stored.size(), 72u);  // the header and the driver's data
  run();
  EXPECT_EQ(read_all(path).size(), stored.size());
  for (const std::string& other : {std::string(), std::string("nonsense"), stored.substr(0, stored.size() / 2)}) {
    std::ofstream(path, std::ios::binary) << other;
    run();
    EXPECT_EQ(read_all(path).size(), stored.size()) << "written anew";
  }
}

}  // namespace
}  // namespace tessera
