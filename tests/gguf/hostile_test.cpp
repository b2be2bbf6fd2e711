// Malformed files. Each is refused immediately, with a message that names the field, the position and the limit, and
// without allocating by a length in the file.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "tests/gguf/hostile_files.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace {
std::atomic<size_t> g_allocated_bytes{0};
}

// Counts the allocations of the whole test program. Not inlined: GCC would otherwise warn about free() on a result of
// new.
[[gnu::noinline]] void* operator new(size_t n) {
  g_allocated_bytes += n;
  if (void* memory = std::malloc(n != 0 ? n : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tessera {
namespace {

using testing::HostileFile;
using testing::kHostileFiles;
using testing::parse;
using testing::small_gguf;

TEST(GgufHostile, EveryMalformedFileIsRefusedAtOnceInOneLine) {
  for (const HostileFile& c : kHostileFiles) {
    SCOPED_TRACE(c.name);
    const std::string bytes = c.bytes();
    const size_t before = g_allocated_bytes;
    const auto start = std::chrono::steady_clock::now();
    const auto file = parse(bytes);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    EXPECT_LT(g_allocated_bytes - before, 2 * bytes.size() + 1'000'000);  // includes memory that was freed again
    EXPECT_LT(ms.count(), 100);
    ASSERT_FALSE(file.has_value());
    const std::string& message = file.error().message();
    EXPECT_NE(message.find(c.message), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("f.gguf: offset ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(GgufHostile, EveryPrefixIsReportedAsTruncated) {
  const std::string whole = small_gguf();
  const std::unique_ptr<GgufFile> file = std::move(*parse(whole));
  const GgufTensor& last = file->tensors().back();
  const size_t n_needed = last.file_offset + last.n_bytes;
  for (size_t n = 0; n < n_needed; ++n) {
    // A copy of exactly n bytes, so that the address sanitizer detects a read past it.
    const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_ERROR(parse({prefix.data(), prefix.size()}), "truncated at byte " + std::to_string(n));
  }
  for (size_t n = n_needed; n <= whole.size(); ++n) EXPECT_OK(parse(std::string_view(whole).substr(0, n)));
}

TEST(GgufHostile, EveryBitFlipIsAnErrorOrAFileThatCanBeRead) {
  const std::string whole = small_gguf();
  size_t n_accepted = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<char> flipped(whole.begin(), whole.end());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto file = parse({flipped.data(), flipped.size()});
    if (!file) {
      EXPECT_EQ(file.error().message().find('\n'), std::string::npos) << file.error().message();
      continue;
    }
    ++n_accepted;
    EXPECT_NE(testing::touch_everything(**file), 0u);
  }
  EXPECT_GT(n_accepted, 0u);
  EXPECT_LT(n_accepted, whole.size() * 8);
}

TEST(GgufHostile, DirectoryIsNamed) { EXPECT_ERROR(GgufFile::open("/tmp"), "/tmp: is a directory"); }

TEST(GgufHostile, OpenedFileIsNamedOnceInTheError) {
  const std::string path = testing::write_temporary("bad.gguf", small_gguf().substr(0, 100));
  const auto file = GgufFile::open(path);
  ASSERT_FALSE(file.has_value());
  EXPECT_TRUE(file.error().message().starts_with(path + ": offset "));
  EXPECT_EQ(file.error().message().find(path, 1), std::string::npos);
}

}  // namespace
}  // namespace tessera
