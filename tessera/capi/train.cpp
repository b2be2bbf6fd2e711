// tessera_experimental.h: training.
#include <array>
#include <filesystem>
#include <ranges>

#include "tessera/base/file.h"
#include "tessera/capi/call_support.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/gguf/keys.h"
#include "tessera/tessera_experimental.h"
#include "tessera/train/blueprint.h"
#include "tessera/train/job.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr std::array kShapes = {train::ScheduleShape::cosine, train::ScheduleShape::linear,
                                train::ScheduleShape::constant};
constexpr std::array kOptimizers = {train::OptimizerKind::adamw, train::OptimizerKind::sgd, train::OptimizerKind::muon};
constexpr std::array kLayouts = {train::WindowLayout::packed, train::WindowLayout::padded, train::WindowLayout::whole};
constexpr uint32_t kTrainFlags =
    TESSERA_TRAIN_RESUME | TESSERA_TRAIN_RECOMPUTE | TESSERA_TRAIN_SPECIAL | TESSERA_TRAIN_BF16;

constexpr tessera_schedule kScheduleDefaults = {
    .size = 0, .shape = 0, .peak = 1e-3f, .floor = 0.1f, .n_warmup = 0, .n_steps = 1};
constexpr tessera_new_model kNewModelDefaults = {};

tessera_train_options train_defaults() {
  tessera_train_options options{};
  options.n_batch = 8;
  options.n_warmup = -1;
  options.n_epochs = 1;
  options.learning_rate = 2e-4f;
  options.floor = 0.1f;
  options.clip = 1;
  options.weight_decay = 0.1f;
  options.seed = 1;
  options.lora_alpha = 16;
  return options;
}

template <class T, size_t n>
Result<T> chosen(const std::array<T, n>& all, int32_t index, std::string_view name) {
  if (index >= 0 && static_cast<size_t>(index) < n) return all[static_cast<size_t>(index)];
  return fail(ErrorCode::invalid_argument, "{}: {}, want 0 to {}", name, index, n - 1);
}

Result<> require_within(double value, double least, double most, std::string_view name) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::invalid_argument, "{}: {}, want {} to {}", name, value, least, most);
}

// The bounds are those of the flags of `tessera train`.
Result<> require_numbers(const tessera_train_options& given) {
  constexpr double kMaxWindows = 1 << 20, kMaxSteps = static_cast<double>(int64_t{1} << 40), kMaxSeed = 0x1p63;
  const struct {
    std::string_view name;
    double value, least, most;
  } numbers[] = {
      {"n_ctx", static_cast<double>(given.n_ctx), 0, static_cast<double>(kMaxContext)},
      {"n_batch", static_cast<double>(given.n_batch), 1, kMaxWindows},
      {"n_micro", static_cast<double>(given.n_micro), 0, kMaxWindows},
      {"n_steps", static_cast<double>(given.n_steps), 0, kMaxSteps},
      {"n_warmup", static_cast<double>(given.n_warmup), -1, kMaxSteps},
      {"n_epochs", double{given.n_epochs}, 1e-6, 1e6},
      {"learning_rate", double{given.learning_rate}, 0, 1e6},
      {"floor", double{given.floor}, 0, 1},
      {"clip", double{given.clip}, 0, 1e9},
      {"weight_decay", double{given.weight_decay}, 0, 1e3},
      {"eval_share", double{given.eval_share}, 0, 0.5},
      {"eval_every", static_cast<double>(given.eval_every), 0, kMaxSteps},
      {"save_every", static_cast<double>(given.save_every), 0, kMaxSteps},
      {"n_keep", static_cast<double>(given.n_keep), 0, 1000},
      {"seed", static_cast<double>(given.seed), 0, kMaxSeed},
      {"lora_rank", static_cast<double>(given.lora_rank), 0, 4096},
      {"lora_alpha", double{given.lora_alpha}, 1e-6, 1e6},
  };
  for (const auto& [name, value, least, most] : numbers) TESSERA_TRY(require_within(value, least, most, name));
  if (given.n_steps > 0 && given.n_warmup > given.n_steps)
    return fail(ErrorCode::invalid_argument, "n_warmup: {}, there are {} steps", given.n_warmup, given.n_steps);
  return {};
}

struct WantedTraining {
  train::JobOptions job{};
  std::string output{};
  train::LoraOptions lora{};
  bool has_lora = false;
};

Result<> require_other(const std::string& input, const std::string& output) {
  std::error_code none;
  if (!std::filesystem::equivalent(input, output, none)) return {};
  return fail(ErrorCode::invalid_argument, "{}: is the input: give another output", output);
}

Result<> read_texts(const tessera_train_options& given, train::JobOptions& job) {
  TESSERA_ASSIGN(const auto texts, capi::read_items(given.texts, given.n_texts, "texts"));
  if (texts.empty()) return fail(ErrorCode::invalid_argument, "texts: there are none");
  for (const char* const path : texts) {
    TESSERA_ASSIGN(std::string file, capi::require_text(path, "texts"));
    job.texts.push_back(std::move(file));
  }
  if (given.separator != nullptr) job.separator = given.separator;
  return {};
}

Result<> read_checkpoint(const tessera_train_options& given, train::JobOptions& job) {
  job.checkpoint = capi::text_or_empty(given.checkpoint);
  job.resume = (given.flags & TESSERA_TRAIN_RESUME) != 0;
  job.save_every = given.save_every;
  job.n_keep = given.n_keep;
  if (job.checkpoint.empty() && (job.resume || job.save_every > 0 || job.n_keep > 0))
    return fail(ErrorCode::invalid_argument, "TESSERA_TRAIN_RESUME, save_every and n_keep require checkpoint");
  if (given.eval_every > 0 && given.eval_share == 0.0f)
    return fail(ErrorCode::invalid_argument, "eval_every requires eval_share");
  return job.require_checkpoint();
}

Result<> read_lora(const tessera_train_options& given, WantedTraining& wanted) {
  wanted.has_lora = given.lora_rank > 0;
  if (!wanted.has_lora) return {};
  if (wanted.job.type != DType::f32)
    return fail(ErrorCode::invalid_argument, "TESSERA_TRAIN_BF16: an adapter is trained and written in F32");
  wanted.lora.rank = given.lora_rank;
  wanted.lora.alpha = given.lora_alpha;
  if (given.lora_targets == nullptr) return {};
  wanted.lora.has_default_targets = false;
  wanted.lora.targets.clear();
  for (const auto name : std::views::split(std::string_view(given.lora_targets), ','))
    wanted.lora.targets.emplace_back(name.begin(), name.end());
  return {};
}

Result<WantedTraining> read_training(const tessera_train_options* options, const char* output,
                                     const tessera_runtime& runtime) {
  WantedTraining wanted;
  TESSERA_ASSIGN(const auto given, capi::read_sized(options, train_defaults(), "options"));
  TESSERA_TRY(capi::require_flags(given.flags, kTrainFlags));
  TESSERA_TRY(require_numbers(given));
  TESSERA_ASSIGN(wanted.output, capi::require_text(output, "output"));
  train::JobOptions& job = wanted.job;
  TESSERA_TRY(read_texts(given, job));
  TESSERA_ASSIGN(job.layout, chosen(kLayouts, given.layout, "layout"));
  TESSERA_ASSIGN(job.shape, chosen(kShapes, given.schedule, "schedule"));
  TESSERA_ASSIGN(job.optimizer.kind, chosen(kOptimizers, given.optimizer, "optimizer"));
  TESSERA_ASSIGN(const int64_t n_threads,
                 capi::count_or(given.n_threads, runtime.thread_options.n_threads, "n_threads"));
  job.threads.n_threads = static_cast<int>(n_threads);
  job.n_ctx = given.n_ctx;
  job.n_batch = given.n_batch;
  job.n_micro = given.n_micro;
  job.n_steps = given.n_steps;
  job.n_warmup = given.n_warmup;
  job.n_epochs = given.n_epochs;
  job.learning_rate = given.learning_rate;
  job.floor = given.floor;
  job.clip = given.clip;
  job.optimizer.weight_decay = given.weight_decay;
  job.eval_share = given.eval_share;
  job.eval_every = given.eval_every;
  job.seed = given.seed;
  job.special = (given.flags & TESSERA_TRAIN_SPECIAL) != 0;
  job.recomputes = (given.flags & TESSERA_TRAIN_RECOMPUTE) != 0;
  job.type = (given.flags & TESSERA_TRAIN_BF16) != 0 ? DType::bf16 : DType::f32;
  for (const std::string& text : job.texts) TESSERA_TRY(require_other(text, wanted.output));
  TESSERA_TRY(read_lora(given, wanted));
  TESSERA_TRY(read_checkpoint(given, job));
  return wanted;
}

// The function of a caller, and what stops a run.
struct Watcher {
  tessera_train_function function = nullptr;
  void* user = nullptr;
  const CancelToken* cancel = nullptr;
  CancelToken stop{};

  void tell(const tessera_train_event& event) {
    if (function != nullptr && function(user, &event) != 0) stop.cancel();
    if (cancel != nullptr && cancel->cancelled()) stop.cancel();
  }
};

Result<> run_job(train::Job& job, Watcher& watcher) {
  TESSERA_TRY(job.start());
  const int64_t n_steps = job.run_options().schedule.n_steps;
  const train::RunEvents events{.on_step =
                                    [&](const train::StepReport& step) {
                                      watcher.tell({.kind = TESSERA_TRAIN_STEP,
                                                    .learning_rate = step.learning_rate,
                                                    .step = step.step,
                                                    .n_steps = n_steps,
                                                    .n_tokens = step.n_tokens,
                                                    .loss = step.loss,
                                                    .gradient_norm = step.gradient_norm,
                                                    .seconds = step.seconds});
                                    },
                                .on_eval =
                                    [&](int64_t step, double loss) {
                                      tessera_train_event event{};
                                      event.kind = TESSERA_TRAIN_EVALUATED;
                                      event.step = step;
                                      event.n_steps = n_steps;
                                      event.loss = loss;
                                      watcher.tell(event);
                                    },
                                .on_save =
                                    [&](int64_t step) {
                                      tessera_train_event event{};
                                      event.kind = TESSERA_TRAIN_SAVED;
                                      event.step = step;
                                      event.n_steps = n_steps;
                                      watcher.tell(event);
                                    }};
  if (watcher.cancel != nullptr && watcher.cancel->cancelled()) watcher.stop.cancel();
  return job.run().run(events, &watcher.stop);
}

Result<> train_model(const tessera_runtime& runtime, const WantedTraining& wanted, const ModelFiles& files,
                     Model& model, Watcher& watcher) {
  for (const std::string& path : {wanted.output, wanted.job.checkpoint})
    if (!path.empty()) TESSERA_TRY(AtomicFile::create(path));  // before long work
  std::unique_ptr<train::Lora> lora;
  if (wanted.has_lora) {
    TESSERA_ASSIGN(lora, train::Lora::create(model, wanted.lora));
  }
  TESSERA_ASSIGN(const Device* const device, runtime.registry->find("cpu"));
  TESSERA_ASSIGN(const auto tokenizer, load_tokenizer(files, model.info().n_vocab));
  const train::JobModel of{
      .device = *device, .files = files, .model = model, .tokenizer = *tokenizer, .lora = lora.get()};
  TESSERA_ASSIGN(const auto job, train::Job::create(of, wanted.job, watcher.cancel));
  TESSERA_TRY(run_job(*job, watcher));
  return job->write(wanted.output);
}

// The keys of a vocabulary, which is that of the checkpoint if the run resumes.
Result<GgufBuilder> vocabulary_keys(const std::string& path) {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(path));
  if (files->metadata().find(keys::kTokenizerModel) == nullptr)
    return fail(ErrorCode::not_found, "{}: has no vocabulary", path);
  GgufBuilder builder;
  for (const Metadata::Entry& entry : files->metadata().entries())
    if (entry.key.starts_with("tokenizer.")) TESSERA_TRY(builder.set_value(entry.key, entry.value));
  return builder;
}

Result<train::ModelSizes> model_sizes(const tessera_new_model* model, int64_t n_ctx) {
  TESSERA_ASSIGN(const auto given, capi::read_sized(model, kNewModelDefaults, "model"));
  if (given.untied != 0 && given.untied != 1)
    return fail(ErrorCode::invalid_argument, "untied: {}, want 0 or 1", given.untied);
  train::ModelSizes sizes;
  if (given.architecture != nullptr) sizes.architecture = given.architecture;
  sizes.name = capi::text_or_empty(given.name);
  sizes.ties_output = given.untied == 0;
  TESSERA_ASSIGN(sizes.n_layers, capi::count_or(given.n_layers, sizes.n_layers, "n_layers"));
  TESSERA_ASSIGN(sizes.n_embd, capi::count_or(given.n_embd, sizes.n_embd, "n_embd"));
  TESSERA_ASSIGN(sizes.n_heads, capi::count_or(given.n_heads, sizes.n_heads, "n_heads"));
  TESSERA_ASSIGN(sizes.n_heads_kv, capi::count_or(given.n_heads_kv, 0, "n_heads_kv"));
  TESSERA_ASSIGN(sizes.n_ff, capi::count_or(given.n_ff, 0, "n_ff"));
  TESSERA_ASSIGN(sizes.n_ctx, capi::count_or(given.n_ctx, n_ctx > 0 ? n_ctx : sizes.n_ctx, "n_ctx"));
  return sizes;
}

}  // namespace

void tessera_schedule_init(tessera_schedule* schedule, size_t size) {
  capi::write_sized(schedule, size, kScheduleDefaults);
}

tessera_status tessera_schedule_rate(const tessera_schedule* schedule, int64_t step, float* rate,
                                     tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const auto given, capi::read_sized(schedule, kScheduleDefaults, "schedule"));
    TESSERA_TRY(capi::require_pointer(rate, "rate"));
    TESSERA_ASSIGN(const auto shape, chosen(kShapes, given.shape, "shape"));
    TESSERA_TRY(require_within(double{given.peak}, 0, 1e6, "peak"));
    TESSERA_TRY(require_within(double{given.floor}, 0, 1, "floor"));
    if (step < 0) return fail(ErrorCode::invalid_argument, "step: {}, want 0 or more", step);
    if (given.n_steps < 1 || given.n_warmup < 0 || given.n_warmup > given.n_steps)
      return fail(ErrorCode::invalid_argument, "n_warmup and n_steps: {} and {}, want 0 to n_steps, and 1 or more",
                  given.n_warmup, given.n_steps);
    const train::Schedule of{.shape = shape,
                             .peak = given.peak,
                             .floor = given.floor,
                             .n_warmup_steps = given.n_warmup,
                             .n_steps = given.n_steps};
    *rate = of.learning_rate(step);
    return {};
  });
}

void tessera_train_options_init(tessera_train_options* options, size_t size) {
  capi::write_sized(options, size, train_defaults());
}

tessera_status tessera_train(tessera_runtime* runtime, const char* input, const char* output,
                             const tessera_train_options* options, tessera_train_function function, void* user,
                             tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_ASSIGN(const std::string from, capi::require_text(input, "input"));
    TESSERA_ASSIGN(const WantedTraining wanted, read_training(options, output, *runtime));
    Watcher watcher{.function = function, .user = user};
    TESSERA_ASSIGN(watcher.cancel, capi::token_of(cancel));
    TESSERA_TRY(require_other(from, wanted.output));
    TESSERA_ASSIGN(const auto files, ModelFiles::open(from));
    TESSERA_ASSIGN(const auto model, create_model(*files, {}));
    return train_model(*runtime, wanted, *files, *model, watcher);
  });
}

void tessera_new_model_init(tessera_new_model* model, size_t size) {
  capi::write_sized(model, size, kNewModelDefaults);
}

tessera_status tessera_train_new(tessera_runtime* runtime, const tessera_new_model* model, const char* vocabulary,
                                 const char* output, const tessera_train_options* options,
                                 tessera_train_function function, void* user, tessera_cancel* cancel,
                                 tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_ASSIGN(const std::string from, capi::require_text(vocabulary, "vocabulary"));
    TESSERA_ASSIGN(const WantedTraining wanted, read_training(options, output, *runtime));
    Watcher watcher{.function = function, .user = user};
    TESSERA_ASSIGN(watcher.cancel, capi::token_of(cancel));
    if (wanted.has_lora) return fail(ErrorCode::invalid_argument, "lora_rank: a new model has no adapter");
    TESSERA_ASSIGN(const train::ModelSizes sizes, model_sizes(model, wanted.job.n_ctx));
    TESSERA_ASSIGN(const GgufBuilder keys, vocabulary_keys(wanted.job.resume ? wanted.job.checkpoint : from));
    TESSERA_ASSIGN(const auto blueprint, train::Blueprint::create(sizes, keys));
    return train_model(*runtime, wanted, blueprint->files(), blueprint->model(), watcher);
  });
}
