// Weights from the file of a worker, or from rank 0 if the worker has no such file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/mpi/file_samples.h"
#include "tests/mpi/cluster.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::Cluster;
using testing::OwnedTensor;

std::string random_text() {
  Rng rng(8);
  std::string text(5000, '\0');
  for (char& c : text) c = static_cast<char>(rng.next_u32());
  return text;
}

class MpiFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.connect());
    path_ = testing::write_temporary("weights", text_);
  }
  // The values of a tensor that was loaded from the middle of the file.
  Result<Bytes> loaded() {
    const OwnedTensor to(cluster_.device().buffer_type(), "t", DType::f32, {256, 4}, {});
    const auto file = std::as_bytes(std::span(text_));
    TESSERA_TRY(to.buffer->load(to.tensor, 1024, {.path = path_, .file = file, .offset = 2000, .n = 2048}));
    return to.read();
  }
  Bytes wanted() const {
    Bytes bytes(4096);
    std::ranges::copy(std::as_bytes(std::span(text_)).subspan(2000, 2048), bytes.begin() + 1024);
    return bytes;
  }
  uint64_t n_sent() { return cluster_.network().n_sent(0, 1); }

  Cluster cluster_;
  std::string text_ = random_text();
  std::string path_;
};

TEST_F(MpiFiles, AWorkerLoadsFromItsOwnFile) {
  ASSERT_OK_AND_ASSIGN(const Bytes first, loaded());
  EXPECT_EQ(first, wanted());
  // A change of the file shows who reads it. It is compared only once.
  std::string changed = text_;
  changed[2000] ^= 1;
  testing::write_temporary("weights", changed);
  ASSERT_OK_AND_ASSIGN(const Bytes second, loaded());
  EXPECT_NE(second, wanted());
  cluster_.client().set_files(mpi::FileMode::send, "");
  ASSERT_OK_AND_ASSIGN(const Bytes third, loaded());
  EXPECT_EQ(third, wanted());
}

TEST_F(MpiFiles, AFileThatDiffersIsSent) {
  std::string changed = text_;
  changed[2000] ^= 1;
  testing::write_temporary("weights", changed);
  ASSERT_OK_AND_ASSIGN(const Bytes bytes, loaded());
  EXPECT_EQ(bytes, wanted());
}

TEST_F(MpiFiles, AnotherPathMayBeNamed) {
  cluster_.client().set_files(mpi::FileMode::local, testing::write_temporary("copy", text_));
  std::filesystem::remove(path_);
  ASSERT_OK_AND_ASSIGN(const Bytes bytes, loaded());
  EXPECT_EQ(bytes, wanted());
}

TEST_F(MpiFiles, WorkersThatMustHaveTheFileSayWhatIsWrong) {
  const std::string shorter = testing::write_temporary("short", text_.substr(1)), missing = "/nowhere/weights";
  cluster_.client().set_files(mpi::FileMode::local, missing);
  EXPECT_ERROR(loaded(), "mpi:1 (host1): /nowhere/weights: ");
  EXPECT_ERROR(loaded(), "mpi:1 (host1): /nowhere/weights: ");
}

TEST_F(MpiFiles, OtherSizesAndSamplesAreRefused) {
  cluster_.client().set_files(mpi::FileMode::local, testing::write_temporary("short", text_.substr(1)));
  EXPECT_ERROR(loaded(), "short: 4999 bytes, 5000 on rank 0");
}

TEST(MpiFileSamples, ReachAllOfALargeFile) {
  std::vector<std::byte> bytes(size_t{3} << 20);
  const auto hash = [&] {
    return mpi::hash_of_samples(bytes.size(),
                                [&](uint64_t offset, std::span<std::byte> into) {
                                  std::copy_n(bytes.begin() + static_cast<int64_t>(offset), into.size(), into.begin());
                                  return Result<>{};
                                })
        .value();
  };
  const uint64_t before = hash();
  for (const size_t at : {size_t{0}, (size_t{1} << 20) - 1, size_t{1} << 20, bytes.size() - 1}) {
    bytes[at] = std::byte{1};
    EXPECT_NE(hash(), before) << at;
    bytes[at] = std::byte{0};
  }
  EXPECT_ERROR(mpi::hash_of_samples(
                   5, [](uint64_t, std::span<std::byte>) -> Result<> { return fail(ErrorCode::io, "unreadable"); }),
               "unreadable");
}

}  // namespace
}  // namespace tessera
