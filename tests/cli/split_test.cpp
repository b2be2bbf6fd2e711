// tessera split and merge: splitting and merging restores a model byte for byte. Existing files are not overwritten.
#include <filesystem>

#include "tessera/gguf/split.h"
#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::expect_refusal;
using testing::run_program;

class SplitCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::temporary_dir() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directory(dir_);
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }
  fs::path dir_;
};

TEST_F(SplitCommand, MergeOfTheShardsIsTheModel) {
  const std::string model = testing::story_model();
  const std::string ours = testing::EditableModel(model).write("ours.gguf");  // in the layout of tessera's writer
  const auto split = run_program({"split", "--split-max-tensors", "20", ours, path("out")});
  ASSERT_EQ(split.status, 0) << split.err;
  EXPECT_EQ(n_files(), 3u);
  EXPECT_NE(split.out.find(split_path(path("out"), 2, 3) + "   8 tensors"), std::string::npos) << split.out;
  const auto merged = run_program({"merge", split_path(path("out"), 0, 3), path("merged.gguf")});
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_EQ(merged.out, "");
  EXPECT_TRUE(testing::read_all(path("merged.gguf")) == testing::read_all(ours));
  const std::vector<std::string> generate = {"-p", "Once", "-n", "8", "--temp", "0", "-q", "-m"};
  std::vector<std::string> whole = {"run"}, parts = {"run"};
  whole.insert(whole.end(), generate.begin(), generate.end());
  parts.insert(parts.end(), generate.begin(), generate.end());
  whole.push_back(model);
  parts.push_back(split_path(path("out"), 0, 3));
  EXPECT_EQ(run_program(parts).out, run_program(whole).out);
}

TEST_F(SplitCommand, DefaultIs128TensorsAndSizesAreDecimal) {
  const std::string model = testing::story_model();
  ASSERT_EQ(run_program({"split", model, path("one"), "-q"}).status, 0);
  EXPECT_TRUE(fs::exists(split_path(path("one"), 0, 1)));
  ASSERT_EQ(run_program({"split", model, path("mega"), "--split-max-size", "1M", "-q"}).status, 0);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(split_path(path("mega"), 0, 2)));
  uint64_t n_bytes = 0;  // each shard has as many tensors as fit into 1e6 bytes
  for (const ModelFiles::Tensor& tensor : files->tensors())
    if (tensor.file == 0) n_bytes += tensor.info.n_bytes;
  EXPECT_LE(n_bytes, 1'000'000u);
  EXPECT_GT(n_bytes + files->files()[1]->tensors()[0].n_bytes, 1'000'000u);
}

TEST_F(SplitCommand, DryRunWritesNothing) {
  const std::string model = testing::story_model();
  const auto output = run_program({"split", model, path("out"), "--dry-run", "--no-tensor-first-split", "-q"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(std::ranges::count(output.out, '\n'), 2);
  EXPECT_TRUE(output.out.starts_with(split_path(path("out"), 0, 2) + "   0 tensors")) << output.out;
  EXPECT_EQ(n_files(), 0u);
}

TEST_F(SplitCommand, ExistingFilesAreKept) {
  const std::string model = testing::story_model();
  ASSERT_EQ(run_program({"split", model, path("out"), "-q"}).status, 0);
  const std::string shard = split_path(path("out"), 0, 1), before = testing::read_all(shard);
  expect_refusal(run_program({"split", model, path("out")}), 1, shard + ": exists already");
  expect_refusal(run_program({"merge", shard, shard}), 1, shard + ": exists already");
  EXPECT_TRUE(testing::read_all(shard) == before);
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(SplitCommand, WrongArgumentsAreRefused) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"split"}), 2, "no paths: want IN.gguf OUT_PREFIX");
  expect_refusal(run_program({"split", model}), 2, "no second path: want IN.gguf OUT_PREFIX");
  expect_refusal(run_program({"merge", model, "a", "b"}), 2, "unexpected argument 'b': want FIRST.gguf OUT.gguf");
  expect_refusal(run_program({"merge", model, ""}), 2, "an empty path");
  for (const char* size : {"0M", "M", "12", "1.5G", "-1M", "1K", "1GB", "99999999999999G", "18446744073709551616M", ""})
    expect_refusal(run_program({"split", model, "out", "--split-max-size", size}), 2, "is not a shard size");
  for (const char* n : {"0", "-1", "x"})
    expect_refusal(run_program({"split", model, "out", "--split-max-tensors", n}), 2, "--split-max-tensors");
  expect_refusal(run_program({"merge", model, path("merged.gguf")}), 1, "is one file already");
  expect_refusal(run_program({"split", path("absent.gguf"), path("out")}), 1, "absent.gguf: cannot open");
  expect_refusal(run_program({"split", model, path("no/such/dir")}), 1, path("no/such/dir") + ": cannot");
  EXPECT_EQ(n_files(), 0u);
}

}  // namespace
}  // namespace tessera
