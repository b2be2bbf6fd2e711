// Splitting and merging: the limits of shards, complete copies of a model, and no files left after failures.
#include "tessera/convert/shards.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

namespace fs = std::filesystem;

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::temporary_dir() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directory(dir_);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::string prefix() const { return path("out"); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }

  // A model of i8 tensors with these numbers of bytes, named t0 and so on. Their bytes depend on position and number.
  std::unique_ptr<ModelFiles> model(const std::vector<int64_t>& sizes) {
    GgufBuilder builder;
    builder.set(keys::kArchitecture, "llama");
    builder.set("some.number", int16_t{-7});
    builder.set_array("some.texts", std::vector<std::string>{"a", "bc"});
    std::vector<std::vector<std::byte>> data;
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_OK(builder.add_tensor("t" + std::to_string(i), DType::i8, {sizes[i]}));
      data.emplace_back(static_cast<size_t>(sizes[i]));
      for (size_t j = 0; j < data.back().size(); ++j) data.back()[j] = static_cast<std::byte>(3 * i + j + (j >> 16));
    }
    auto writer = GgufWriter::create(path("in.gguf"), builder);
    EXPECT_OK(writer);
    for (const auto& bytes : data) EXPECT_OK(writer->append(bytes));
    EXPECT_OK(writer->finish());
    auto files = ModelFiles::open(path("in.gguf"));
    EXPECT_OK(files);
    return std::move(*files);
  }

  static std::vector<size_t> counts(const ModelFiles& model, const ShardLimits& limits) {
    const auto shards = plan_shards(model, limits);
    EXPECT_OK(shards);
    std::vector<size_t> counts;
    size_t next = 0;
    for (const Shard& shard : *shards) {
      EXPECT_TRUE(shard.n_tensors == 0 || shard.first_tensor == next);
      next += shard.n_tensors;
      counts.push_back(shard.n_tensors);
    }
    EXPECT_EQ(next, model.tensors().size());
    return counts;
  }

  fs::path dir_;
};

using Counts = std::vector<size_t>;

TEST_F(Shards, EndAtTheLimitOfTensors) {
  const auto files = model({1, 1, 1, 1, 1});
  EXPECT_EQ(counts(*files, {.max_tensors = 2}), (Counts{2, 2, 1}));
  EXPECT_EQ(counts(*files, {.max_tensors = 5}), Counts{5});
  EXPECT_EQ(counts(*files, {.max_tensors = 0}), Counts{5});
  EXPECT_EQ(counts(*files, {}), Counts{5});
}

TEST_F(Shards, EndAtTheLimitOfPaddedBytes) {
  const auto files = model({1, 32, 33, 32, 200, 1});  // padded 32, 32, 64, 32, 224, 32
  EXPECT_EQ(counts(*files, {.max_tensors = 0, .max_bytes = 64}), (Counts{2, 1, 1, 1, 1}));
  EXPECT_EQ(counts(*files, {.max_tensors = 0, .max_bytes = 128}), (Counts{3, 1, 1, 1}));
  EXPECT_EQ(counts(*files, {.max_tensors = 0, .max_bytes = 256}), (Counts{4, 2}));
  EXPECT_EQ(counts(*files, {.max_tensors = 1, .max_bytes = 256}), (Counts{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(counts(*files, {.max_tensors = 0, .max_bytes = 1}), (Counts{1, 1, 1, 1, 1, 1}));
}

TEST_F(Shards, FirstMayHoldTheKeysAlone) {
  const auto files = model({1, 1, 1});
  EXPECT_EQ(counts(*files, {.max_tensors = 2, .is_first_tensorless = true}), (Counts{0, 2, 1}));
  EXPECT_EQ(counts(*files, {.max_tensors = 0, .max_bytes = 32, .is_first_tensorless = true}), (Counts{0, 1, 1, 1}));
  EXPECT_EQ(counts(*model({}), {.is_first_tensorless = true}), Counts{0});
}

TEST_F(Shards, MoreThanTheFormatCanNumberAreRefused) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const auto files = model(std::vector<int64_t>(65536, 1));
  EXPECT_ERROR(plan_shards(*files, {.max_tensors = 1}), "65536 shards, limit 65535");
  EXPECT_OK(plan_shards(*files, {.max_tensors = 2}));
}

TEST_F(Shards, AreOneModelWithAllKeysAndTensors) {
  const auto files = model({5, 40, 100});
  ASSERT_OK_AND_ASSIGN(const auto shards, plan_shards(*files, {.max_tensors = 2, .is_first_tensorless = true}));
  ASSERT_OK(write_shards(*files, shards, prefix()));
  EXPECT_EQ(n_files(), 4u);  // including the input: no other file remains
  ASSERT_OK_AND_ASSIGN(const auto read, ModelFiles::open(split_path(prefix(), 0, 3)));
  EXPECT_EQ(read->metadata().find(keys::kSplitNo)->type(), GgufType::u16);
  EXPECT_EQ(read->metadata().find(keys::kSplitCount)->type(), GgufType::u16);
  EXPECT_EQ(read->metadata().find(keys::kSplitTensorsCount)->type(), GgufType::i32);
  EXPECT_EQ(read->metadata().entries().size(), 6u);
  EXPECT_EQ(read->files()[1]->metadata().entries().size(), 3u);
  EXPECT_EQ(*read->metadata().get<int16_t>("some.number"), -7);
  ASSERT_EQ(read->tensors().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->tensors()[i].info.name, files->tensors()[i].info.name);
    EXPECT_TRUE(std::ranges::equal(read->data(read->tensors()[i]), files->data(files->tensors()[i])));
  }
}

TEST_F(Shards, MergeGivesTheOriginalBytes) {
  const auto files = model({5, 40, 100, 9 << 20, 1});
  for (const bool is_first_tensorless : {false, true}) {
    const ShardLimits limits{.max_tensors = 2, .is_first_tensorless = is_first_tensorless};
    ASSERT_OK_AND_ASSIGN(const auto shards, plan_shards(*files, limits));
    ASSERT_OK(write_shards(*files, shards, prefix()));
    const auto n = static_cast<uint32_t>(shards.size());
    ASSERT_OK_AND_ASSIGN(const auto split, ModelFiles::open(split_path(prefix(), 0, n)));
    const std::string merged = path("merged" + std::to_string(n) + ".gguf");
    ASSERT_OK(merge_shards(*split, merged));
    EXPECT_TRUE(testing::read_all(merged) == testing::read_all(path("in.gguf")));
  }
}

TEST_F(Shards, OfASplitModelReplaceItsKeys) {
  const auto files = model({5, 40, 100});
  ASSERT_OK(write_shards(*files, *plan_shards(*files, {.max_tensors = 1}), prefix()));
  ASSERT_OK_AND_ASSIGN(const auto three, ModelFiles::open(split_path(prefix(), 0, 3)));
  ASSERT_OK(write_shards(*three, *plan_shards(*three, {.max_tensors = 2}), path("two")));
  ASSERT_OK_AND_ASSIGN(const auto two, ModelFiles::open(split_path(path("two"), 0, 2)));
  EXPECT_EQ(two->tensors().size(), 3u);
  ASSERT_OK(merge_shards(*two, path("merged.gguf")));
  EXPECT_EQ(testing::read_all(path("merged.gguf")), testing::read_all(path("in.gguf")));
}

TEST_F(Shards, ExistingFilesAreRefusedAndKept) {
  const auto files = model({5, 40, 100});
  const auto shards = plan_shards(*files, {.max_tensors = 1});
  const std::string last = split_path(prefix(), 2, 3);
  std::ofstream(last) << "mine";
  const auto unexpected = [](float) {
    ADD_FAILURE() << "copied before it was refused";
    return true;
  };
  EXPECT_ERROR(write_shards(*files, *shards, prefix(), unexpected), last + ": exists already");
  EXPECT_EQ(testing::read_all(last), "mine");
  EXPECT_EQ(n_files(), 2u);
  fs::remove(last);
  ASSERT_OK(write_shards(*files, *shards, prefix()));
  ASSERT_OK_AND_ASSIGN(const auto split, ModelFiles::open(split_path(prefix(), 0, 3)));
  EXPECT_ERROR(merge_shards(*split, path("in.gguf")), path("in.gguf") + ": exists already");
}

TEST_F(Shards, StoppedCopiesLeaveNothing) {
  const auto files = model({5, 40, 100});
  const auto shards = plan_shards(*files, {.max_tensors = 1});
  std::vector<float> shares;
  const auto stop_at_half = [&](float share) {
    shares.push_back(share);
    return share < 0.5f;
  };
  const auto stopped = write_shards(*files, *shards, prefix(), stop_at_half);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(shares, (std::vector<float>{5.0f / 145, 45.0f / 145, 1.0f}));
  EXPECT_EQ(n_files(), 1u);
  ASSERT_OK(write_shards(*files, *shards, prefix()));
  ASSERT_OK_AND_ASSIGN(const auto split, ModelFiles::open(split_path(prefix(), 0, 3)));
  EXPECT_FALSE(merge_shards(*split, path("merged.gguf"), stop_at_half).has_value());
  EXPECT_EQ(n_files(), 4u);
}

TEST_F(Shards, FilesThatAppearMeanwhileAreKept) {
  const auto files = model({5, 40});
  const std::string last = split_path(prefix(), 1, 2);
  const auto intrude = [&](float) {
    std::ofstream(last) << "mine";
    return true;
  };
  EXPECT_ERROR(write_shards(*files, *plan_shards(*files, {.max_tensors = 1}), prefix(), intrude), "exists already");
  EXPECT_EQ(testing::read_all(last), "mine");
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(Shards, PlacesThatCannotBeWrittenAreNamed) {
  const auto files = model({5});
  EXPECT_ERROR(write_shards(*files, *plan_shards(*files, {}), path("no/such/dir")), path("no/such/dir") + ": cannot");
}

TEST_F(Shards, OneFileIsNotMerged) {
  const auto files = model({5});
  EXPECT_ERROR(merge_shards(*files, path("merged.gguf")), "is one file already: it has no key 'split.count'");
}

}  // namespace
}  // namespace tessera::convert
