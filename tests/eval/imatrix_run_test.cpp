// An importance matrix over the chunks of a text: files on the way, a stop and its continuation, merged files.
#include "tessera/eval/imatrix_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/engine_support.h"

namespace tessera::eval {
namespace {

using namespace testing;
using convert::Imatrix;

class ImatrixRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    folder_ = temporary_dir() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directory(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Collects chunks of 16 tokens, one at a time, and stops after `n_stop` if it is not 0.
  Result<> collect(ImatrixRun& run, int64_t n_chunks, int64_t n_stop = 0, ThreadPool* threads = nullptr) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "Once upon a time there was a girl. ";
    TESSERA_ASSIGN(const Chunks chunks,
                   Chunks::create(engine_->tokenizer(), text, {.n_ctx = 16, .n_max_chunks = n_chunks}));
    const ChunkRun work{.n_call = 16, .outputs = {0, 16}};
    SessionOptions options;
    work.set_up(options, 16);
    options.observer = run.observer();
    TESSERA_ASSIGN(const auto session, Session::create(engine_, options));
    done_.clear();
    const auto note = [&](int64_t n) {
      done_.push_back(n);
      return n != n_stop;
    };
    return run.collect(*session, chunks, work, threads, note, nullptr);
  }
  void expect_chunks(const std::string& file, uint32_t n) const {
    ASSERT_OK_AND_ASSIGN(const Imatrix imatrix, Imatrix::load(file));
    EXPECT_EQ(imatrix.n_chunks, n) << file;
    EXPECT_EQ(imatrix.chunk_size, 16u);
    EXPECT_EQ(imatrix.entries.at("blk.0.attn_q.weight").counts, std::vector<double>{16.0 * n});
  }

  std::shared_ptr<Engine> engine_;
  std::filesystem::path folder_;
  std::vector<int64_t> done_;
};

TEST_F(ImatrixRunTest, SavesOnTheWay) {
  ImatrixRun run({.path = path("m.gguf"), .save_every = 2, .snapshot_every = 3}, ImatrixCollector::Output::skip);
  ASSERT_OK(run.begin("text", 16, false));
  ASSERT_OK(collect(run, 5));
  EXPECT_EQ(done_, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  expect_chunks(path("m.gguf"), 4);
  expect_chunks(path("m.gguf.at_3"), 3);
  EXPECT_FALSE(std::filesystem::exists(path("m.gguf.at_2")));
  ASSERT_OK(run.save());
  expect_chunks(path("m.gguf"), 5);
  EXPECT_EQ(run.perplexity().n_tokens, 0);
}

TEST_F(ImatrixRunTest, ContinuesWhereItStopped) {
  const ImatrixOutput output{.path = path("m.gguf"), .save_every = 2};
  {
    ImatrixRun run(output, ImatrixCollector::Output::skip);
    ASSERT_OK(run.begin("text", 16, true));  // there is no file yet
    const auto stopped = collect(run, 5, 2);
    EXPECT_ERROR(stopped, "stopped after chunk 2 of 5");
    EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  }
  expect_chunks(path("m.gguf"), 2);
  ImatrixRun other(output, ImatrixCollector::Output::skip);
  EXPECT_ERROR(other.begin("another", 16, true), "chunks of 16 tokens of text, cannot continue with 16 of another");
  ImatrixRun longer(output, ImatrixCollector::Output::skip);
  EXPECT_ERROR(longer.begin("text", 32, true), "cannot continue with 32 of text");
  ImatrixRun run(output, ImatrixCollector::Output::skip);
  ASSERT_OK(run.begin("text", 16, true));
  ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({}));
  ASSERT_OK(collect(run, 5, 0, threads.get()));
  EXPECT_EQ(done_, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(run.perplexity().n_tokens, 3 * 7);  // of the chunks of this run
  EXPECT_EQ(run.collected().n_chunks, 5u);
  ImatrixRun dat({.path = path("m.dat"), .form = ImatrixForm::dat}, ImatrixCollector::Output::skip);
  EXPECT_ERROR(dat.begin("text", 16, true), "m.dat: the dat format does not record the progress: want gguf");
  ImatrixRun model({.path = story_model()}, ImatrixCollector::Output::skip);
  ASSERT_OK(model.begin("text", 16, false));
  EXPECT_ERROR(collect(model, 2), "is the input, ");
  ImatrixRun anew(output, ImatrixCollector::Output::collect);
  ASSERT_OK(anew.begin("text", 16, false));
  EXPECT_EQ(anew.collected().n_chunks, 0u);
  ASSERT_OK(collect(anew, 2));
  EXPECT_TRUE(anew.collected().entries.contains("output.weight") || anew.collected().entries.size() > 30);
}

TEST_F(ImatrixRunTest, AddsFiles) {
  const std::string first = path("first.gguf"), both = path("both.dat");
  ImatrixRun run({.path = first}, ImatrixCollector::Output::skip);
  ASSERT_OK(run.begin("text", 16, false));
  ASSERT_OK(collect(run, 2));
  ASSERT_OK(run.save());
  EXPECT_EQ(imatrix_form_of(first), ImatrixForm::gguf);
  ImatrixRun sum({.path = both, .form = imatrix_form_of(both)}, ImatrixCollector::Output::skip);
  EXPECT_ERROR(sum.merge(path("none.gguf")), "none.gguf");
  ASSERT_OK(sum.merge(first));
  ASSERT_OK(sum.merge(first));
  ASSERT_OK(sum.save());
  ASSERT_OK_AND_ASSIGN(const Imatrix merged, Imatrix::load(both));
  EXPECT_EQ(merged.n_chunks, 4u);
  EXPECT_NE(read_all(both).substr(0, 4), "GGUF");
  // With a text, too.
  ImatrixRun more({.path = path("more.gguf")}, ImatrixCollector::Output::skip);
  ASSERT_OK(more.merge(first));
  ASSERT_OK(more.begin("text", 16, false));
  ASSERT_OK(collect(more, 3));
  ASSERT_OK(more.save());
  expect_chunks(path("more.gguf"), 5);
}

}  // namespace
}  // namespace tessera::eval
