// A training by its options: numbers that follow from others, checkpoints, and the output.
#include "tessera/train/job.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/training.h"

namespace tessera::train {
namespace {

using testing::tiny_training;
using testing::TinyTraining;
using testing::training_lines;

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, tiny_training(training_lines(100)));
    options_.texts = {testing::write_temporary("job.txt", training_lines(100))};
    options_.n_ctx = 16;
    options_.n_batch = 4;
    options_.n_steps = 4;
  }
  Result<std::unique_ptr<Job>> create() const {
    return Job::create({.device = tiny_.device(),
                        .files = tiny_.blueprint->files(),
                        .model = tiny_.blueprint->model(),
                        .tokenizer = *tiny_.tokenizer},
                       options_, nullptr);
  }

  TinyTraining tiny_;
  JobOptions options_;
};

TEST_F(JobTest, NumbersFollowFromOthers) {
  ASSERT_OK_AND_ASSIGN(const auto job, create());
  EXPECT_EQ(job->run_options().schedule.n_steps, 4);
  EXPECT_EQ(job->run_options().schedule.n_warmup_steps, 0);
  EXPECT_EQ(job->trainer().options().n_micro_windows, 4);  // 64 would have 1024 tokens
  EXPECT_EQ(job->trainer().options().n_ctx, 16);
  EXPECT_FALSE(job->trainer().options().rounds_weights);
  const auto n_windows = static_cast<int64_t>(job->data().n_train_windows());
  options_.n_steps = 0;
  options_.n_epochs = 2.5f;
  options_.type = DType::bf16;
  options_.n_micro = 2;
  ASSERT_OK_AND_ASSIGN(const auto epochs, create());
  const int64_t n_steps = epochs->run_options().schedule.n_steps;
  EXPECT_EQ(n_steps, (n_windows * 5 + 7) / 8);
  EXPECT_EQ(epochs->run_options().schedule.n_warmup_steps, n_steps / 20);
  EXPECT_EQ(epochs->trainer().options().n_micro_windows, 2);
  EXPECT_TRUE(epochs->trainer().options().rounds_weights);
  options_.n_warmup = 3;
  options_.n_ctx = 0;
  ASSERT_OK_AND_ASSIGN(const auto warm, create());
  EXPECT_EQ(warm->run_options().schedule.n_warmup_steps, 3);
  EXPECT_EQ(warm->data().n_ctx(), 32);
  options_.texts = {"/none.txt"};
  EXPECT_ERROR(create(), "/none.txt");
}

TEST_F(JobTest, TrainsAndResumesFromACheckpoint) {
  const std::string whole = testing::temporary_path("whole.gguf"), parts = testing::temporary_path("parts.gguf");
  const auto train = [&](const std::string& output) -> Result<int64_t> {
    TESSERA_TRY(options_.require_checkpoint());
    TESSERA_ASSIGN(const auto job, create());
    TESSERA_TRY(job->start());
    const int64_t n_before = job->run().state().n_steps;
    TESSERA_TRY(job->run().run({}, nullptr));
    TESSERA_TRY(job->write(output));
    return n_before;
  };
  EXPECT_EQ(train(whole).value(), 0);
  options_.checkpoint = testing::temporary_path("job.checkpoint");
  options_.resume = true;
  EXPECT_ERROR(train(parts), "job.checkpoint: no checkpoint to resume from");
  options_.resume = false;
  options_.shape = ScheduleShape::constant;  // so that the number of steps does not change the others
  EXPECT_EQ(train(whole).value(), 0);
  std::filesystem::remove(options_.checkpoint);
  options_.n_steps = 2;
  EXPECT_EQ(train(parts).value(), 0);
  options_.n_steps = 4;
  EXPECT_ERROR(train(parts), "job.checkpoint: a checkpoint exists: option resume continues from it");
  options_.resume = true;
  EXPECT_EQ(train(parts).value(), 2);
  EXPECT_TRUE(testing::read_all(whole) == testing::read_all(parts));
}

}  // namespace
}  // namespace tessera::train
