// The training run of train and finetune, after the model is loaded or created.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tessera/cli/console.h"
#include "tessera/cli/loss_svg.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/train_args.h"
#include "tessera/cli/train_log.h"
#include "tessera/cli/train_progress.h"
#include "tessera/engine/vocab_loader.h"

namespace tessera::cli {

namespace {

constexpr int64_t kMicroTokens = 1024;
constexpr double kWarmupShare = 0.05;

Result<> require_paths(const TrainArgs& args) {
  for (const std::string& path : {args.output, args.checkpoint, args.svg}) TESSERA_TRY(require_writable(path));
  const bool exists = std::filesystem::exists(args.checkpoint);
  if (!args.checkpoint.empty() && exists && !args.resume)
    return fail(ErrorCode::invalid_argument, "{}: a checkpoint exists: --resume continues from it", args.checkpoint);
  if (args.resume && !exists) return fail(ErrorCode::not_found, "{}: no checkpoint to resume from", args.checkpoint);
  return {};
}

train::WindowLayout window_layout(const TrainArgs& args) {
  if (args.separate_documents) return train::WindowLayout::padded;
  return args.whole_documents ? train::WindowLayout::whole : train::WindowLayout::packed;
}

int64_t count_steps(const TrainArgs& args, const train::Dataset& data) {
  if (args.n_steps > 0) return args.n_steps;
  const double n_windows = static_cast<double>(args.n_epochs) * static_cast<double>(data.n_train_windows());
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(n_windows / static_cast<double>(args.n_batch))));
}

train::RunOptions run_options(const TrainArgs& args, const train::Dataset& data) {
  const int64_t n_steps = count_steps(args, data);
  const auto n_warmup = static_cast<int64_t>(kWarmupShare * static_cast<double>(n_steps));
  return {.n_batch_windows = args.n_batch,
          .schedule = {.shape = args.shape,
                       .peak = args.learning_rate,
                       .floor = args.floor,
                       .n_warmup_steps = args.n_warmup >= 0 ? args.n_warmup : n_warmup,
                       .n_steps = n_steps},
          .eval_every = args.eval_every,
          .checkpoint_path = args.checkpoint,
          .save_every = args.save_every,
          .n_keep = args.n_keep};
}

std::string describe(const train::Trainer& trainer, const train::Dataset& data, int64_t n_steps) {
  const train::TrainingBytes bytes = trainer.bytes();
  const auto human = [](size_t n) { return human_bytes(static_cast<double>(n)); };
  return fmt::format(
      "text: {} tokens, {} documents, {} windows of {}, {} for evaluation\n"
      "learned: {} parameters in {} steps\n"
      "memory: {} (weights {}, gradients {}, optimizer {}, compute {})",
      data.n_tokens(), data.n_documents(), data.n_windows(), data.n_ctx(), data.n_eval_windows(),
      trainer.parameters().n_elements(), n_steps, human(bytes.total()), human(bytes.parameters.weights),
      human(bytes.parameters.gradients), human(bytes.parameters.moments), human(bytes.compute));
}

Result<> require_memory(const Device& device, const train::Trainer& trainer) {
  const uint64_t free = device.memory().free_bytes, wanted = trainer.bytes().total();
  if (free == 0 || wanted <= free) return {};
  return fail(ErrorCode::out_of_memory,
              "training needs {} bytes, {} are available (a smaller --micro-batch or --recompute needs less)", wanted,
              free);
}

}  // namespace

Result<> run_training(const TrainArgs& args, const Training& training, Context& process) {
  TESSERA_TRY(require_paths(args));
  TESSERA_ASSIGN(const auto registry, open_registry());
  TESSERA_ASSIGN(const Device* device, registry->find("cpu"));
  TESSERA_ASSIGN(const auto tokenizer, load_tokenizer(training.files, training.model.info().n_vocab));
  const int64_t n_ctx = args.n_ctx > 0 ? args.n_ctx : training.model.info().n_ctx_train;
  TESSERA_ASSIGN(const auto data, train::Dataset::read(args.texts, args.separator, *tokenizer,
                                                       {.n_ctx = n_ctx,
                                                        .layout = window_layout(args),
                                                        .eval_share = double{args.eval_share},
                                                        .seed = static_cast<uint64_t>(args.seed),
                                                        .parse_special = args.special},
                                                       &process.interrupt));
  const int64_t n_micro = args.n_micro > 0 ? args.n_micro : std::max<int64_t>(1, kMicroTokens / n_ctx);
  TESSERA_ASSIGN(const auto trainer,
                 train::Trainer::create(*device, training.model,
                                        {.n_ctx = n_ctx,
                                         .n_micro_windows = std::min(n_micro, args.n_batch),
                                         .recomputes = args.recomputes,
                                         .rounds_weights = args.type == DType::bf16,
                                         .clip = args.clip,
                                         .optimizer = args.optimizer,
                                         .lora = training.lora,
                                         .threads = {.n_threads = args.n_threads, .numa = args.numa}}));
  const train::RunOptions options = run_options(args, data);
  if (!process.quiet) log(describe(*trainer, data, options.schedule.n_steps));
  TESSERA_TRY(require_memory(*device, *trainer));
  TESSERA_TRY(trainer->allocate());
  TESSERA_TRY(trainer->initialize(training.files, static_cast<uint64_t>(args.seed)));
  train::TrainingRun run(*trainer, data, training.files, options);
  if (args.resume) TESSERA_TRY(run.resume(args.checkpoint));
  TESSERA_ASSIGN(TrainLog losses, TrainLog::open(args.log_path, args.resume));

  LossCurve curve;
  Result<> outcome;
  {
    TrainProgress progress(options.schedule.n_steps, run.state().n_steps, curve, process);
    const train::RunEvents events{
        .on_step =
            [&](const train::StepReport& step) {
              curve.add_step(step.step, step.loss);
              losses.add_step(step);
              progress.update(step);
            },
        .on_eval =
            [&](int64_t step, double loss) {
              curve.add_eval(step, loss);
              losses.add_eval(step, loss);
              progress.add_eval(step, loss);
            },
        .on_save = [&](int64_t step) { progress.note(fmt::format("step {}: checkpoint {}", step, args.checkpoint)); }};
    outcome = run.run(events, &process.interrupt);
  }
  if (!args.svg.empty() && !curve.steps.empty()) TESSERA_TRY(write_loss_svg(args.svg, curve));
  TESSERA_TRY(losses.finish());
  // run_program() prints no message for an interrupted command.
  if (!outcome && outcome.error().code() == ErrorCode::cancelled && !process.quiet)
    log(with_flag_names(outcome.error().message()) + (args.checkpoint.empty() ? "" : "; --resume continues"));
  TESSERA_TRY(std::move(outcome));
  TESSERA_TRY(train::write_trained(args.output, training.files, *trainer, args.type));
  if (!process.quiet) log(fmt::format("{}: written", args.output));
  return {};
}

}  // namespace tessera::cli
