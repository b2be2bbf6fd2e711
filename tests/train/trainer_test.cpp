// Training: the loss decreases, and results have the same bits for any number of threads and with recomputation.
#include "tessera/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/support/spec_model.h"
#include "tests/support/training.h"

namespace tessera::train {
namespace {

using testing::make_trainer;
using testing::tiny_training;
using testing::TinyTraining;
using testing::training_lines;

// The result of a run: losses and the values of all parameters.
struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> values;
  bool operator==(const Outcome&) const = default;
};

std::vector<std::vector<float>> values_of(const Trainer& trainer) {
  std::vector<std::vector<float>> values;
  for (const Parameter& p : trainer.parameters().all()) values.push_back(Parameters::get_values(p.values()).value());
  return values;
}

RunOptions short_run(int64_t n_steps) {
  return {.n_batch_windows = 4, .schedule = {.peak = 1e-2f, .n_warmup_steps = 2, .n_steps = n_steps}};
}

Result<Outcome> train_steps(const TrainerOptions& options, RunOptions run_options = short_run(6)) {
  TESSERA_ASSIGN(const TinyTraining t, tiny_training(training_lines(100)));
  TESSERA_ASSIGN(const auto trainer, make_trainer(t, options));
  TrainingRun run(*trainer, *t.data, t.blueprint->files(), run_options);
  Outcome outcome;
  TESSERA_TRY(run.run({.on_step = [&](const StepReport& step) { outcome.losses.push_back(step.loss); }}, nullptr));
  outcome.values = values_of(*trainer);
  return outcome;
}

TEST(Trainer, FirstLossIsThatOfGuessing) {
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  const auto trainer = make_trainer(*t, {.n_micro_windows = 2});
  ASSERT_OK(trainer);
  std::vector<int32_t> tokens(32), targets(32);
  t->data->fill(0, tokens, targets);
  const auto losses = (*trainer)->evaluate({tokens, targets});
  ASSERT_OK(losses);
  EXPECT_EQ(losses->n, 32);
  // Logits of the initial weights are random with deviation 0.55, which increases the loss by half its square.
  EXPECT_NEAR(losses->mean(), std::log(static_cast<double>(t->tokenizer->vocab().n_tokens())) + 0.15, 0.1);
}

TEST(Trainer, LossFalls) {
  const auto outcome = train_steps({.n_micro_windows = 4}, short_run(60));
  ASSERT_OK(outcome);
  EXPECT_LT(outcome->losses.back(), 0.6 * outcome->losses.front());
}

TEST(Trainer, ATinyModelLearnsAHundredLinesByHeart) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  ModelSizes sizes = testing::tiny_sizes();
  sizes.n_embd = 64;
  sizes.n_ff = 128;
  const auto t = tiny_training(training_lines(100), sizes);
  ASSERT_OK(t);
  const auto trainer =
      make_trainer(*t, {.n_micro_windows = 8, .optimizer = {.kind = OptimizerKind::muon, .weight_decay = 0.0f}});
  ASSERT_OK(trainer);
  const RunOptions options{.n_batch_windows = 8, .schedule = {.peak = 1e-2f, .n_warmup_steps = 10, .n_steps = 300}};
  TrainingRun run(**trainer, *t->data, t->blueprint->files(), options);
  double loss = 0;
  ASSERT_OK(run.run({.on_step = [&](const StepReport& step) { loss = step.loss; }}, nullptr));
  EXPECT_LT(loss, 0.05);
}

TEST(Trainer, SameBitsForAnyNumberOfThreads) {
  const auto one = train_steps({.n_micro_windows = 4});
  ASSERT_OK(one);
  for (const int n_threads : {2, 3}) {
    const auto more = train_steps({.n_micro_windows = 4, .threads = {.n_threads = n_threads}});
    ASSERT_OK(more);
    EXPECT_TRUE(*one == *more) << n_threads;
  }
}

TEST(Trainer, RecomputationGivesTheSameBitsInLessMemory) {
  const auto kept = train_steps({.n_micro_windows = 4});
  const auto recomputed = train_steps({.n_micro_windows = 4, .recomputes = true});
  ASSERT_OK(kept);
  ASSERT_OK(recomputed);
  EXPECT_TRUE(*kept == *recomputed);

  auto sizes = testing::tiny_sizes();
  sizes.n_layers = 8;
  const auto t = tiny_training(training_lines(100), sizes);
  ASSERT_OK(t);
  const auto bytes = [&](bool recomputes) {
    return Trainer::create(t->device(), t->blueprint->model(),
                           {.n_ctx = 32, .n_micro_windows = 4, .recomputes = recomputes})
        .value()
        ->bytes()
        .compute;
  };
  EXPECT_LT(bytes(true), bytes(false) * 2 / 3);
}

TEST(Trainer, MicroBatchesAddUpToTheBatch) {
  const auto whole = train_steps({.n_micro_windows = 4}, short_run(1));
  const auto parts = train_steps({.n_micro_windows = 1}, short_run(1));
  const auto uneven = train_steps({.n_micro_windows = 3}, short_run(1));
  ASSERT_OK(whole);
  ASSERT_OK(parts);
  ASSERT_OK(uneven);
  for (const auto& other : {*parts, *uneven}) {
    EXPECT_NEAR(whole->losses[0], other.losses[0], 1e-5);
    // AdamW's first step is about learning_rate * sign(gradient). It may differ for gradients near the rounding error.
    size_t n_far = 0, n = 0;
    for (size_t i = 0; i < whole->values.size(); ++i)
      for (size_t j = 0; j < whole->values[i].size(); ++j, ++n)
        n_far += std::abs(whole->values[i][j] - other.values[i][j]) > 1e-4f;
    EXPECT_LT(n_far, n / 500);
  }
}

TEST(Trainer, ResumedRunIsTheUnbrokenOne) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::muon}) {
    for (const bool rounds : {false, true}) {
      const TrainerOptions options{.n_micro_windows = 4, .rounds_weights = rounds, .optimizer = {.kind = kind}};
      const auto unbroken = train_steps(options);
      ASSERT_OK(unbroken);
      const std::string path = (testing::temporary_dir() / "resume.gguf").string();
      std::filesystem::remove(path);
      const auto t = tiny_training(training_lines(100));
      ASSERT_OK(t);
      Outcome outcome;
      RunOptions run_options = short_run(6);
      run_options.checkpoint_path = path;
      CancelToken cancel;
      const RunEvents events{.on_step = [&](const StepReport& step) {
        outcome.losses.push_back(step.loss);
        if (step.step == 3) cancel.cancel();
      }};
      {
        const auto trainer = make_trainer(*t, options);
        ASSERT_OK(trainer);
        TrainingRun run(**trainer, *t->data, t->blueprint->files(), run_options);
        const auto stopped = run.run(events, &cancel);
        ASSERT_FALSE(stopped.has_value());
        EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
      }
      cancel.reset();
      const auto again = tiny_training(training_lines(100));
      const auto trainer = make_trainer(*again, options);
      ASSERT_OK(trainer);
      TrainingRun run(**trainer, *again->data, again->blueprint->files(), run_options);
      ASSERT_OK(run.resume(path));
      EXPECT_EQ(run.state().n_steps, 3);
      ASSERT_OK(run.run(events, nullptr));
      outcome.values = values_of(**trainer);
      EXPECT_TRUE(outcome == *unbroken) << to_string(kind) << rounds;
    }
  }
}

TEST(Trainer, RefusesTheCheckpointOfAnotherModelTextOrOptimizer) {
  const std::string path = (testing::temporary_dir() / "other.gguf").string();
  const auto save = [&](const TinyTraining& t) -> Result<> {
    TESSERA_ASSIGN(const auto trainer, make_trainer(t, {.n_micro_windows = 1}));
    RunOptions options = short_run(1);
    options.checkpoint_path = path;
    TrainingRun run(*trainer, *t.data, t.blueprint->files(), options);
    return run.run({}, nullptr);
  };
  const auto resume = [&](const TinyTraining& t, OptimizerKind kind) -> Result<> {
    TESSERA_ASSIGN(const auto trainer, make_trainer(t, {.n_micro_windows = 1, .optimizer = {.kind = kind}}));
    return TrainingRun(*trainer, *t.data, t.blueprint->files(), short_run(2)).resume(path);
  };
  const auto refused = [](const Result<>& result, const std::string& part) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), ErrorCode::mismatch);
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
  };
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  ASSERT_OK(save(*t));
  EXPECT_OK(resume(*t, OptimizerKind::adamw));
  refused(resume(*t, OptimizerKind::sgd), "optimizer");
  auto sizes = testing::tiny_sizes();
  sizes.n_ff = 96;
  refused(resume(*tiny_training(training_lines(100), sizes), OptimizerKind::adamw), "another model");
  const auto other = tiny_training(training_lines(100), testing::tiny_sizes(), 0.2);
  ASSERT_OK(other);
  refused(resume(*other, OptimizerKind::adamw), "another text");
}

TEST(Trainer, DivergenceStopsAndKeepsTheCheckpoint) {
  const std::string path = (testing::temporary_dir() / "diverges.gguf").string();
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  const auto trainer = make_trainer(*t, {.n_micro_windows = 4, .clip = 0, .optimizer = {.kind = OptimizerKind::sgd}});
  ASSERT_OK(trainer);
  RunOptions options = short_run(400);
  options.schedule = {.shape = ScheduleShape::constant, .peak = 1e4f, .n_steps = 400};
  options.checkpoint_path = path;
  options.save_every = 1;
  TrainingRun run(**trainer, *t->data, t->blueprint->files(), options);
  const auto result = run.run({}, nullptr);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::limit);
  EXPECT_NE(result.error().message().find("diverges"), std::string::npos) << result.error().message();
  EXPECT_LT(run.state().n_steps, 400);
  EXPECT_OK(ModelFiles::open(path));
}

TEST(Trainer, ALossThatStaysFarAboveItsBestIsDivergenceToo) {
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  const auto trainer = make_trainer(*t, {.n_micro_windows = 4});
  ASSERT_OK(trainer);
  RunOptions options = short_run(400);
  options.schedule = {.shape = ScheduleShape::constant, .peak = 3.0f, .n_steps = 400};
  TrainingRun run(**trainer, *t->data, t->blueprint->files(), options);
  double worst = 0;
  const auto result =
      run.run({.on_step = [&](const StepReport& step) { worst = std::max(worst, step.loss); }}, nullptr);
  EXPECT_TRUE(std::isfinite(worst));
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message().find("at its best"), std::string::npos) << result.error().message();
}

TEST(Trainer, AStepGoesAgainstTheMeanGradientNoFurtherThanTheClip) {
  for (const float clip : {0.0f, 0.1f}) {
    const auto t = tiny_training(training_lines(100));
    ASSERT_OK(t);
    const auto trainer = make_trainer(
        *t, {.n_micro_windows = 1, .clip = clip, .optimizer = {.kind = OptimizerKind::sgd, .weight_decay = 0.0f}});
    ASSERT_OK(trainer);
    std::vector<int32_t> tokens(64), targets(64);
    for (size_t i = 0; i < 2; ++i)
      t->data->fill(i, std::span(tokens).subspan(i * 32, 32), std::span(targets).subspan(i * 32, 32));
    const auto before = values_of(**trainer);
    constexpr float kRate = 0.5f;
    const auto step = (*trainer)->step({tokens, targets}, 0, kRate);
    ASSERT_OK(step);
    const auto after = values_of(**trainer);
    double sum = 0;
    for (size_t i = 0; i < before.size(); ++i)
      for (size_t j = 0; j < before[i].size(); ++j) sum += std::pow(double{after[i][j]} - double{before[i][j]}, 2);
    const double norm = clip == 0.0f ? step->gradient_norm : double{clip};
    EXPECT_GT(step->gradient_norm, 0.2);
    EXPECT_NEAR(std::sqrt(sum), double{kRate} * norm, 1e-4 * norm);  // f32 steps from weights near 0.02 and 1
    const auto losses = (*trainer)->evaluate({tokens, targets});
    ASSERT_OK(losses);
    EXPECT_LT(losses->mean(), step->loss);
  }
}

TEST(Trainer, EarlierCheckpointsStay) {
  const std::string path = (testing::temporary_dir() / "kept.gguf").string();
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  const auto trainer = make_trainer(*t, {.n_micro_windows = 4});
  ASSERT_OK(trainer);
  RunOptions options = short_run(4);
  options.checkpoint_path = path;
  options.save_every = 1;
  options.n_keep = 2;
  TrainingRun run(**trainer, *t->data, t->blueprint->files(), options);
  ASSERT_OK(run.run({}, nullptr));
  const auto steps = [](const std::string& file) {
    return ModelFiles::open(file).value()->metadata().get<int64_t>("tessera.train.steps").value();
  };
  EXPECT_EQ(steps(path), 4);
  EXPECT_EQ(steps(path + ".1"), 3);
  EXPECT_EQ(steps(path + ".2"), 2);
  EXPECT_FALSE(std::filesystem::exists(path + ".3"));
}

TEST(Trainer, EveryArchitectureThatCanBeMadeLearns) {
  for (const std::string architecture : {"llama", "qwen2", "qwen3", "gemma", "gpt2"}) {
    for (const bool ties : {true, false}) {
      if (!ties && (architecture == "gemma" || !testing::runs_all_cases())) continue;
      train::ModelSizes sizes = testing::tiny_sizes();
      sizes.architecture = architecture;
      sizes.n_heads_kv = architecture == "gpt2" ? 2 : 1;
      sizes.ties_output = ties;
      const auto t = tiny_training(training_lines(100), sizes);
      ASSERT_OK(t);
      const auto trainer = make_trainer(*t, {.n_micro_windows = 4});
      ASSERT_OK(trainer);
      TrainingRun run(**trainer, *t->data, t->blueprint->files(), short_run(30));
      double first = 0, last = 0;
      ASSERT_OK(run.run({.on_step =
                             [&](const StepReport& step) {
                               if (step.step == 1) first = step.loss;
                               last = step.loss;
                             }},
                        nullptr));
      EXPECT_LT(last, 0.8 * first) << architecture << ties;
    }
  }
}

// All kinds of layers: recurrent layers, experts, sinks, latent attention.
TEST(Trainer, ModelsWithStatesAndExpertsLearn) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  constexpr int64_t kCtx = 24, kWindows = 3;
  std::vector<int32_t> tokens, targets;
  for (int32_t i = 0; i < kCtx * kWindows; ++i) {
    tokens.push_back(3 + i * 7 % 11);
    targets.push_back(3 + (i + 1) * 7 % 11);
  }
  for (const char* name : {"mamba-dense", "mamba2-dense", "lfm2-dense", "llama-moe", "gpt-oss-moe", "deepseek2-moe"}) {
    const std::string path = testing::arch_model(name);
    const auto learned = [&](bool recomputes) -> Result<std::vector<double>> {
      TESSERA_ASSIGN(const auto registry, create_registry(""));
      TESSERA_ASSIGN(const Device* device, registry->find("cpu"));
      TESSERA_ASSIGN(const auto files, ModelFiles::open(path));
      TESSERA_ASSIGN(const auto model, create_model(*files, {}));
      TESSERA_ASSIGN(const auto trainer, Trainer::create(*device, *model,
                                                         {.n_ctx = kCtx,
                                                          .n_micro_windows = 2,  // the second pass has only one window
                                                          .recomputes = recomputes,
                                                          .threads = {.n_threads = recomputes ? 2 : 1}}));
      TESSERA_TRY(trainer->allocate());
      TESSERA_TRY(trainer->initialize(*files, 1));
      std::vector<double> losses;
      for (int64_t i = 0; i < 12; ++i) {
        TESSERA_ASSIGN(const StepResult step, trainer->step({tokens, targets}, i, 3e-3f));
        losses.push_back(step.loss);
      }
      return losses;
    };
    ASSERT_OK_AND_ASSIGN(const std::vector<double> losses, learned(false));
    EXPECT_LT(losses.back(), 0.8 * losses.front()) << name;
    EXPECT_EQ(learned(true), losses) << name;
  }
}

TEST(Trainer, RefusesOptionsAndExamples) {
  const auto t = tiny_training(training_lines(100));
  ASSERT_OK(t);
  Model& model = t->blueprint->model();
  EXPECT_FALSE(Trainer::create(t->device(), model, {.n_ctx = 33}).has_value());
  EXPECT_FALSE(Trainer::create(t->device(), model, {.n_ctx = 32, .n_micro_windows = 0}).has_value());
  const auto trainer = make_trainer(*t, {.n_micro_windows = 1});
  ASSERT_OK(trainer);
  std::vector<int32_t> tokens(32, 1), targets(32, kNoTarget);
  EXPECT_FALSE((*trainer)->step({tokens, targets}, 0, 1e-3f).has_value());  // no targets
  targets.pop_back();
  EXPECT_FALSE((*trainer)->step({tokens, targets}, 0, 1e-3f).has_value());
  targets.push_back(100000);
  EXPECT_FALSE((*trainer)->step({tokens, targets}, 0, 1e-3f).has_value());
}

}  // namespace
}  // namespace tessera::train
