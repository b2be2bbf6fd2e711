#include "tessera/train/job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace tessera::train {

namespace {

constexpr int64_t kMicroTokens = 1024;
constexpr double kWarmupShare = 0.05;

int64_t count_steps(const JobOptions& options, const Dataset& data) {
  if (options.n_steps > 0) return options.n_steps;
  const double n_windows = static_cast<double>(options.n_epochs) * static_cast<double>(data.n_train_windows());
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(n_windows / static_cast<double>(options.n_batch))));
}

RunOptions run_options_of(const JobOptions& options, const Dataset& data) {
  const int64_t n_steps = count_steps(options, data);
  const auto n_warmup = static_cast<int64_t>(kWarmupShare * static_cast<double>(n_steps));
  return {.n_batch_windows = options.n_batch,
          .schedule = {.shape = options.shape,
                       .peak = options.learning_rate,
                       .floor = options.floor,
                       .n_warmup_steps = options.n_warmup >= 0 ? options.n_warmup : n_warmup,
                       .n_steps = n_steps},
          .eval_every = options.eval_every,
          .checkpoint_path = options.checkpoint,
          .save_every = options.save_every,
          .n_keep = options.n_keep};
}

Result<> require_memory(const Device& device, const Trainer& trainer) {
  const uint64_t free = device.memory().free_bytes, wanted = trainer.bytes().total();
  if (free == 0 || wanted <= free) return {};
  return fail(ErrorCode::out_of_memory,
              "training needs {} bytes, {} are available (a smaller option n_micro or option recomputes needs less)",
              wanted, free);
}

}  // namespace

Result<> JobOptions::require_checkpoint() const {
  std::error_code error;
  const bool exists = std::filesystem::exists(checkpoint, error);
  if (!checkpoint.empty() && exists && !resume)
    return fail(ErrorCode::invalid_argument, "{}: a checkpoint exists: option resume continues from it", checkpoint);
  if (resume && !exists) return fail(ErrorCode::not_found, "{}: no checkpoint to resume from", checkpoint);
  return {};
}

Result<std::unique_ptr<Job>> Job::create(const JobModel& model, const JobOptions& options, const CancelToken* cancel) {
  const int64_t n_ctx = options.n_ctx > 0 ? options.n_ctx : model.model.info().n_ctx_train;
  TESSERA_ASSIGN(Dataset data, Dataset::read(options.texts, options.separator, model.tokenizer,
                                             {.n_ctx = n_ctx,
                                              .layout = options.layout,
                                              .eval_share = double{options.eval_share},
                                              .seed = static_cast<uint64_t>(options.seed),
                                              .parse_special = options.special},
                                             cancel));
  std::unique_ptr<Job> job(new Job(model, options, std::move(data)));
  const int64_t n_micro = options.n_micro > 0 ? options.n_micro : std::max<int64_t>(1, kMicroTokens / n_ctx);
  TESSERA_ASSIGN(job->trainer_, Trainer::create(model.device, model.model,
                                                {.n_ctx = n_ctx,
                                                 .n_micro_windows = std::min(n_micro, options.n_batch),
                                                 .recomputes = options.recomputes,
                                                 .rounds_weights = options.type == DType::bf16,
                                                 .clip = options.clip,
                                                 .optimizer = options.optimizer,
                                                 .lora = model.lora,
                                                 .threads = options.threads}));
  job->run_options_ = run_options_of(options, job->data_);
  return job;
}

Result<> Job::start() {
  TESSERA_TRY(require_memory(model_.device, *trainer_));
  TESSERA_TRY(trainer_->allocate());
  TESSERA_TRY(trainer_->initialize(model_.files, static_cast<uint64_t>(options_.seed)));
  run_ = std::make_unique<TrainingRun>(*trainer_, data_, model_.files, run_options_);
  return options_.resume ? run_->resume(options_.checkpoint) : Result<>();
}

Result<> Job::write(const std::string& path) const {
  return write_trained(path, model_.files, *trainer_, options_.type);
}

}  // namespace tessera::train
