// The training run of train and finetune, after the model is loaded or created.
#include <fmt/format.h>

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

Result<> require_paths(const TrainArgs& args) {
  for (const std::string& path : {args.output, args.checkpoint, args.svg}) TESSERA_TRY(require_writable(path));
  return args.require_checkpoint();
}

train::WindowLayout window_layout(const TrainArgs& args) {
  if (args.separate_documents) return train::WindowLayout::padded;
  return args.whole_documents ? train::WindowLayout::whole : train::WindowLayout::packed;
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

}  // namespace

Result<> run_training(const TrainArgs& args, const Training& training, Context& process) {
  TESSERA_TRY(require_paths(args));
  TESSERA_ASSIGN(const auto registry, open_registry());
  TESSERA_ASSIGN(const Device* device, registry->find("cpu"));
  TESSERA_ASSIGN(const auto tokenizer, load_tokenizer(training.files, training.model.info().n_vocab));
  train::JobOptions options = args;
  options.layout = window_layout(args);
  const train::JobModel model{.device = *device,
                              .files = training.files,
                              .model = training.model,
                              .tokenizer = *tokenizer,
                              .lora = training.lora};
  TESSERA_ASSIGN(const auto job, train::Job::create(model, options, &process.interrupt));
  const int64_t n_steps = job->run_options().schedule.n_steps;
  if (!process.quiet) log(describe(job->trainer(), job->data(), n_steps));
  TESSERA_TRY(job->start());
  train::TrainingRun& run = job->run();
  TESSERA_ASSIGN(TrainLog losses, TrainLog::open(args.log_path, args.resume));

  LossCurve curve;
  Result<> outcome;
  {
    TrainProgress progress(n_steps, run.state().n_steps, curve, process);
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
  TESSERA_TRY(job->write(args.output));
  if (!process.quiet) log(fmt::format("{}: written", args.output));
  return {};
}

}  // namespace tessera::cli
