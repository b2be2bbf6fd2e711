// tessera imatrix: collecting, saving, resuming, merging, converting and describing matrices.
#include "tessera/convert/imatrix.h"

#include <fmt/format.h>

#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using convert::Imatrix;
using testing::expect_refusal;
using testing::run_program;

class ImatrixCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::story_model();
    text_ = testing::story_text();
    dir_ = testing::temporary_dir() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directory(dir_);
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  /// Returns the matrix of the text's first chunks, computed with further flags.
  Imatrix collect(const std::string& name, int n_chunks, std::vector<std::string> flags = {}) const {
    std::vector<std::string> args = {"imatrix", "-m", model_, "-f", text_,     "--chunks", std::to_string(n_chunks),
                                     "-c",      "64", "-q",   "-o", path(name)};
    args.insert(args.end(), flags.begin(), flags.end());
    const auto output = run_program(args);
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.err + output.out, "");
    auto loaded = Imatrix::load(path(name));
    EXPECT_OK(loaded);
    return loaded ? std::move(*loaded) : Imatrix();
  }

  std::string model_, text_;
  fs::path dir_;
};

// The tolerance is for f32 sums in other groups, stored as f32.
void expect_equal(const Imatrix& got, const Imatrix& want, double tolerance = 1e-5) {
  EXPECT_EQ(got.n_chunks, want.n_chunks);
  ASSERT_EQ(got.entries.size(), want.entries.size());
  for (const auto& [weight, entry] : want.entries) {
    ASSERT_TRUE(got.entries.contains(weight)) << weight;
    const auto& other = got.entries.find(weight)->second;
    EXPECT_EQ(other.counts, entry.counts) << weight;
    ASSERT_EQ(other.sums.size(), entry.sums.size()) << weight;
    for (size_t i = 0; i < entry.sums.size(); ++i)
      ASSERT_NEAR(other.sums[i], entry.sums[i], tolerance * entry.sums[i]) << weight << " " << i;
  }
}

TEST_F(ImatrixCommand, CountsEveryTokenOfEveryBlockWeight) {
  const Imatrix imatrix = collect("a.gguf", 3);
  EXPECT_EQ(imatrix.n_chunks, 3u);
  EXPECT_EQ(imatrix.chunk_size, 64u);
  EXPECT_EQ(imatrix.datasets, std::vector<std::string>{text_});
  EXPECT_EQ(imatrix.entries.size(), 5u * 7);
  for (const auto& [weight, entry] : imatrix.entries) {
    EXPECT_TRUE(weight.starts_with("blk.")) << weight;
    EXPECT_EQ(entry.counts, std::vector<double>{192}) << weight;
    for (const double sum : entry.sums) EXPECT_GT(sum, 0) << weight;
  }
}

TEST_F(ImatrixCommand, IsTheSameForAnyMicroBatchAndWithoutPerplexity) {
  const Imatrix want = collect("a.gguf", 12, {"-ub", "64"});
  expect_equal(collect("b.gguf", 12), want);
  expect_equal(collect("c.gguf", 12, {"-ub", "17", "-t", "2", "--no-ppl"}), want);
}

TEST_F(ImatrixCommand, ProcessOutputCollectsTheOutputToo) {
  testing::EditableModel model(model_);  // shares output and embedding: add an output of its own
  const auto tensors = model.builder.tensors();
  const auto embedding = std::ranges::find(tensors, "token_embd.weight", &GgufBuilder::TensorEntry::name);
  if (std::ranges::find(tensors, "output.weight", &GgufBuilder::TensorEntry::name) == tensors.end()) {
    model.data.push_back(model.tensor("token_embd.weight"));
    ASSERT_OK(model.builder.add_tensor("output.weight", embedding->dtype, embedding->shape));
    model_ = model.write("own-output.gguf");
  }
  EXPECT_FALSE(collect("a.gguf", 2).entries.contains("output.weight"));
  const Imatrix with = collect("b.gguf", 2, {"--process-output"});
  ASSERT_TRUE(with.entries.contains("output.weight"));
  EXPECT_EQ(with.entries.at("output.weight").counts, std::vector<double>{128});
}

TEST_F(ImatrixCommand, SnapshotsAreThePrefixes) {
  collect("a.gguf", 7, {"--save-frequency", "3"});
  for (const int n : {3, 6}) {
    ASSERT_OK_AND_ASSIGN(const Imatrix snapshot, Imatrix::load(path(fmt::format("a.gguf.at_{}", n))));
    expect_equal(snapshot, collect("b.gguf", n));
  }
  EXPECT_FALSE(fs::exists(path("a.gguf.at_7")));
}

// Eight chunks of 64 are computed together unless there is a save among them. A directory at the path of the snapshot
// after the fourth chunk ends the run there.
TEST_F(ImatrixCommand, AFailureKeepsTheLastSavedFile) {
  fs::create_directory(path("a.gguf.at_4"));
  const auto output = run_program({"imatrix", "-m", model_, "-f", text_, "-c", "64", "-q", "-o", path("a.gguf"),
                                   "--output-frequency", "3", "--save-frequency", "4"});
  expect_refusal(output, 1, "a.gguf.at_4: exists and is not a regular file");
  ASSERT_OK_AND_ASSIGN(const Imatrix saved, Imatrix::load(path("a.gguf")));
  EXPECT_EQ(saved.n_chunks, 3u);
  EXPECT_EQ(saved.entries.at("blk.0.attn_q.weight").counts, std::vector<double>{192});
}

TEST_F(ImatrixCommand, ResumedIsAsIfNeverStopped) {
  collect("a.gguf", 5);
  const Imatrix resumed = collect("a.gguf", 14, {"--resume"});
  expect_equal(resumed, collect("b.gguf", 14));
  expect_equal(collect("a.gguf", 14, {"--resume"}), resumed, 0);  // no chunk left
  expect_equal(collect("new.gguf", 14, {"--resume"}), resumed);   // no earlier run
}

TEST_F(ImatrixCommand, ResumeRefusesAnotherTextOrChunkSize) {
  collect("a.gguf", 2);
  const std::string before = testing::read_all(path("a.gguf"));
  const std::vector<std::string> args = {"imatrix", "-m", model_, "-o", path("a.gguf"), "--resume"};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), args.begin(), args.end());
    return run_program(flags);
  };
  expect_refusal(run({"-f", text_, "-c", "128"}), 1, "cannot continue with 128");
  expect_refusal(run({"-p", "text", "-c", "64"}), 1, "cannot continue with 64 of (prompt)");
  expect_refusal(run({"-f", text_, "--output-format", "dat"}), 2, "--resume");
  expect_refusal(run({"-f", text_, "--in-file", path("a.gguf")}), 2, "--resume and --in-file");
  EXPECT_TRUE(testing::read_all(path("a.gguf")) == before);
}

TEST_F(ImatrixCommand, AnInterruptKeepsTheLastSavedFile) {
  const auto saved = [&] { return fs::exists(path("a.gguf")); };
  std::string text;
  for (int i = 0; i < 20; ++i) text += testing::read_all(text_);  // long enough for many seconds
  text_ = testing::write_temporary("long.txt", text);
  testing::Child child({"imatrix", "-m", model_, "-f", text_, "-c", "64", "-ub", "64", "-q", "-o", path("a.gguf")});
  for (int i = 0; i < 12000 && !saved(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.send(SIGINT);
  EXPECT_EQ(child.wait().status, 130);
  ASSERT_OK_AND_ASSIGN(const Imatrix imatrix, Imatrix::load(path("a.gguf")));
  EXPECT_GT(imatrix.n_chunks, 0u);
  EXPECT_EQ(imatrix.n_chunks % 10, 0u);
  EXPECT_EQ(imatrix.entries.begin()->second.counts[0], imatrix.n_chunks * 64.0);
}

TEST_F(ImatrixCommand, MergesPartsToTheWhole) {
  collect("a.gguf", 4);
  collect("b.gguf", 3, {"--chunk", "4"});
  const auto merged = run_program(
      {"imatrix", "--in-file", path("a.gguf"), "--in-file", path("b.gguf"), "-o", path("merged.gguf"), "-q"});
  ASSERT_EQ(merged.status, 0) << merged.err;
  const Imatrix want = collect("whole.gguf", 7);
  ASSERT_OK_AND_ASSIGN(const Imatrix got, Imatrix::load(path("merged.gguf")));
  expect_equal(got, want);
  expect_equal(collect("added.gguf", 3, {"--chunk", "4", "--in-file", path("a.gguf")}), want);
}

TEST_F(ImatrixCommand, ConvertsBySuffixAndByFlag) {
  const Imatrix want = collect("a.gguf", 4);
  for (const auto& [name, flags] :
       {std::pair<std::string, std::vector<std::string>>{"b.dat", {}}, {"c.imatrix", {"--output-format", "dat"}}}) {
    std::vector<std::string> args = {"imatrix", "--in-file", path("a.gguf"), "-o", path(name), "-q"};
    args.insert(args.end(), flags.begin(), flags.end());
    ASSERT_EQ(run_program(args).status, 0);
    EXPECT_FALSE(testing::read_all(path(name)).starts_with("GGUF"));
    ASSERT_OK_AND_ASSIGN(const Imatrix got, Imatrix::load(path(name)));
    EXPECT_EQ(got.n_chunks, 4u);
    for (const auto& [weight, entry] : want.entries) {
      const std::vector<float> a = convert::importance_of(got.entries.find(weight)->second, 0),
                               b = convert::importance_of(entry, 0);
      for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6f * b[i]);  // rounded to f32 twice
    }
  }
  expect_refusal(run_program({"imatrix", "--in-file", path("a.gguf"), "--output-format", "zip"}), 2, "'zip'");
}

TEST_F(ImatrixCommand, StatisticsAreATableOfWeightsAndOneOfLayers) {
  collect("a.gguf", 4);
  const auto output = run_program({"imatrix", "--in-file", path("a.gguf"), "--show-statistics"});
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(std::ranges::count(output.out, '\n'), 1 + 35 + 1 + 1 + 5);
  EXPECT_NE(output.out.find("blk.4.ffn_down.weight"), std::string::npos) << output.out;
  EXPECT_FALSE(fs::exists("imatrix.gguf"));
}

TEST_F(ImatrixCommand, NamesTheWeightWhoseInputsAreNotFinite) {
  testing::EditableModel model(model_);
  std::ranges::fill(model.tensor("blk.2.ffn_norm.weight"), std::byte{0x7f});  // 3.4e38: squares overflow
  expect_refusal(run_program({"imatrix", "-m", model.write("inf.gguf"), "-f", text_, "-q", "-o", path("a.gguf")}), 1,
                 "blk.2.ffn_gate.weight: input column ");
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(ImatrixCommand, AnOutputThatCannotBeWrittenIsRefusedBeforeTheWork) {
  const auto output = run_program({"imatrix", "-m", model_, "-f", text_, "-o", path("none") + "/a.gguf"});
  expect_refusal(output, 1, "none/a.gguf: cannot create");
}

}  // namespace
}  // namespace tessera
