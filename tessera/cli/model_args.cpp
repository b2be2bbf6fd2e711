#include "tessera/cli/model_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/app/app.h"
#include "tessera/app/bundled_model.h"
#include "tessera/base/cpu_info.h"
#include "tessera/cli/adapter_args.h"
#include "tessera/cli/hub_args.h"
#include "tessera/cli/offload_args.h"
#include "tessera/cli/option_flags.h"
#include "tessera/observe/schedule_log.h"

namespace tessera::cli {

namespace {

Setter set_cache_type(DType& target) {
  const auto set = [&target](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(target, cache_type_from_name(text));
    return {};
  };
  return Setter(set, std::string(info(target).name));
}

Setter set_load_mode(EngineOptions& options) {
  return [&options](std::string_view text) -> Result<> {
    if (text == "mmap" || text == "mmap+mlock") {
      options.load = LoadMode::mmap;
    } else if (text == "none" || text == "mlock") {
      options.load = LoadMode::read;
    } else {
      return fail(ErrorCode::invalid_argument, "'{}' is not a load mode (none, mmap, mlock, mmap+mlock)", text);
    }
    options.lock_memory = text.find("mlock") != std::string_view::npos;
    return {};
  };
}

Setter set_priority(Priority& target) {
  return [&target](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(const int64_t level, parse_integer(text, -1, 3));
    target = static_cast<Priority>(level + 1);
    return {};
  };
}

Setter set_activations(ActivationPrecision& target) {
  return [&target](std::string_view text) -> Result<> {
    const auto activations = activations_from_name(text);
    if (!activations)
      return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, f32, int8-32, int8-64, int8-128, int16", text);
    target = *activations;
    return {};
  };
}

Setter set_attention(AttentionPrecision& target) {
  return [&target](std::string_view text) -> Result<> {
    const auto* found = std::ranges::find(kAttentionNames, text, [](const auto& entry) { return entry.first; });
    if (found == std::end(kAttentionNames))
      return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, f32, int16", text);
    target = found->second;
    return {};
  };
}

template <class T>
Setter set_optional_real(std::optional<T>& target, float min, float max) {
  return [&target, min, max](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(const float value, parse_real(text, min, max));
    target = static_cast<T>(value);
    return {};
  };
}

Setter set_numa_policy(NumaPolicy& target) {
  return [&target](std::string_view text) -> Result<> {
    constexpr std::pair<std::string_view, NumaPolicy> kNames[] = {
        {"distribute", NumaPolicy::distribute}, {"isolate", NumaPolicy::isolate}, {"numactl", NumaPolicy::numactl}};
    const auto* found = std::ranges::find(kNames, text, [](const auto& entry) { return entry.first; });
    if (found == std::end(kNames))
      return fail(ErrorCode::invalid_argument, "'{}' is not one of distribute, isolate, numactl", text);
    target = found->second;
    return {};
  };
}

}  // namespace

Result<DType> cache_type_from_name(std::string_view name) {
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  return fail(ErrorCode::invalid_argument, "'{}' is not a type ({})", name, kv_format_names());
}

std::optional<ActivationPrecision> activations_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, ActivationPrecision> kNames[] = {{"auto", ActivationPrecision::automatic},
                                                                         {"f32", ActivationPrecision::float32},
                                                                         {"int8-32", ActivationPrecision::int8_32},
                                                                         {"int8-64", ActivationPrecision::int8_64},
                                                                         {"int8-128", ActivationPrecision::int8_128}};
  const auto* found = std::ranges::find(kNames, name, [](const auto& entry) { return entry.first; });
  if (found == std::end(kNames)) return std::nullopt;
  return found->second;
}

void add_model_flag(FlagTable& table, std::string& path, std::string_view absent) {
  table.common("--model -m", "FILE", "GGUF model file, or the first part of a split model", set_string(path),
               std::string(absent));
  add_hub_flags(table, path);
}

Result<> require_model(const std::string& path) {
  if (path.empty()) return fail(ErrorCode::invalid_argument, "no model: give one with -m FILE or TESSERA_MODEL");
  return {};
}

void add_threads_flag(FlagTable& table, int32_t& n_threads) {
  table.common("--threads -t", "N", "number of threads", set_integer(n_threads, 1, ThreadPool::kMaxThreads),
               fmt::format("{} here", n_threads));
}

void add_numa_flag(FlagTable& table, NumaPolicy& policy) {
  table.rare("--numa", "POLICY",
             "NUMA policy: distribute (spread threads over the nodes), isolate (keep all on the node of the start), "
             "numactl (use the CPUs given by numactl)",
             set_numa_policy(policy), "the system places threads");
}

void ModelArgs::add_to(FlagTable& table) {
  add_model_flag(table, options.path, may_be_bundled ? "the bundled model" : "");
  EngineOptions& engine = options.engine;
  table.rare("--load-mode -lm", "MODE", "how to load the file: none (read it), mmap, mlock, mmap+mlock",
             set_load_mode(engine), "mmap");
  table.rare("--no-mmap", "", "read the file instead of mapping it", [&engine](std::string_view) -> Result<> {
    engine.load = LoadMode::read;
    return {};
  });
  table.rare("--mlock", "", "lock the weights in memory", set_switch(engine.lock_memory));
  table.rare("--no-repack -nr", "", "use weights as stored in the file instead of packing them for the device",
             set_switch(engine.pack_weights, false));
  table.rare("--check-tensors", "", "refuse a model with infinite or NaN weights", set_switch(engine.check_tensors));
  if (bounds_memory) add_memory_flag(table, options.fit);
  add_offload_flags(table, engine.placement, options.fit);
  RopeOverrides& rope = engine.rope;
  table.rare(
      "--rope-scaling", "KIND", "RoPE scaling: none, linear, yarn, longrope",
      [&rope](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(rope.scaling, nn::rope_scaling_from_name(text));
        return {};
      },
      "the model's");
  table.rare("--rope-scale", "X", "RoPE: factor by which the context is stretched",
             set_optional_real(rope.factor, 1e-4f, 65536.0f), "the model's");
  table.rare(
      "--rope-freq-scale", "X", "the inverse of --rope-scale",
      [&rope](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const float scale, parse_real(text, 1.0f / 65536.0f, 1e4f));
        rope.factor = 1.0f / scale;
        return {};
      },
      "the model's");
  table.rare("--rope-freq-base", "X", "base of the RoPE frequencies", set_optional_real(rope.freq_base, 1.0f, 1e12f),
             "the model's");
  table.rare("--yarn-orig-ctx", "N", "YaRN: context the model was trained with",
             set_optional_real(rope.original_context, 1.0f, 1.6e7f), "the model's");
  table.rare("--yarn-ext-factor", "X", "YaRN: share of extrapolation, 0 to 1",
             set_optional_real(rope.yarn_ext, 0.0f, 1.0f), "the model's");
  table.rare("--yarn-attn-factor", "X", "YaRN: factor of the attention magnitude",
             set_optional_real(rope.attn_factor, 1e-6f, 1e6f), "the model's");
  table.rare("--yarn-beta-fast", "X", "YaRN: rotations within the original context above which dimensions extrapolate",
             set_optional_real(rope.yarn_beta_fast, 1e-6f, 1e6f), "32");
  table.rare("--yarn-beta-slow", "X", "YaRN: rotations within the original context below which dimensions interpolate",
             set_optional_real(rope.yarn_beta_slow, 1e-6f, 1e6f), "1");
  add_adapter_flags(table, options.adapters);
}

ContextArgs::ContextArgs() { session.threads.n_threads = default_thread_count(); }

void ContextArgs::add_to(FlagTable& table) {
  table.common("--ctx-size -c", "N", "context size in tokens", set_integer(session.n_ctx, 0, kMaxContext),
               "0: the model's");
  table.rare("--batch-size -b", "N", "prompt tokens per decode call", set_integer(n_batch, 1, kMaxContext));
  table.rare("--ubatch-size -ub", "N", "micro-batch: tokens computed at once",
             noting(has_ubatch, set_integer(session.n_ubatch, 1, 1 << 16)));
  table.rare("--cache-type-k -ctk", "TYPE", "type of the K cache: " + kv_format_names(),
             set_cache_type(session.type_k));
  table.rare("--cache-type-v -ctv", "TYPE", "type of the V cache", set_cache_type(session.type_v));
  table.rare(
      "--activations", "TYPE",
      "precision of activations in products: f32, or int8-N with one scale per up to N values (32, 64, 128) where "
      "weights are quantized",
      set_activations(session.activations), "auto: by weight format, on the CPU int16 for F16 and BF16");
  table.rare("--attention-scores", "TYPE",
             "precision of the products in attention, on the CPU: f32, or int16 (faster in long prompts)",
             set_attention(session.attention), "auto: int16 if the weights are quantized");
  add_threads_flag(table, session.threads.n_threads);
  Flag& threads = table.at("--threads");
  threads.set = noting(has_threads, {std::move(threads.set)}).set;
  table.rare("--cpu-mask -C", "HEX", "CPUs to run on, as a hexadecimal mask", set_string(cpu_mask));
  table.rare("--cpu-range -Cr", "LO-HI", "CPUs to run on, as a range", set_string(cpu_range));
  table.rare(
      "--cpu-strict", "0|1", "1: pin each thread to a CPU of its own",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const int64_t strict, parse_integer(text, 0, 1));
        session.threads.affinity = strict == 1 ? Affinity::strict : Affinity::shared;
        has_binding = true;
        return {};
      },
      "0");
  table.rare("--prio", "N", "thread priority: -1 low, 0 normal, 1 medium, 2 high, 3 realtime",
             set_priority(session.threads.priority), "0");
  table.rare("--poll", "N", "how long idle threads spin before they sleep, 0 to 100",
             set_integer(session.threads.poll, 0, 100));
  add_numa_flag(table, session.threads.numa);
  Flag& numa = table.at("--numa");
  numa.set = noting(has_binding, {std::move(numa.set)}).set;
  table.rare("--log-sched", "", "print the device of each node of a step, and the reason, to stderr",
             set_switch(log_schedule));
}

Result<> ContextArgs::check() {
  if (!cpu_mask.empty() && !cpu_range.empty())
    return fail(ErrorCode::invalid_argument, "--cpu-mask and --cpu-range: give one of them");
  if (!cpu_mask.empty()) {
    auto mask = CpuMask::from_hex(cpu_mask);
    if (!mask) return forward_error(mask, "--cpu-mask");
    session.threads.cpus = *mask;
  }
  if (!cpu_range.empty()) {
    auto mask = CpuMask::from_list(cpu_range);
    if (!mask) return forward_error(mask, "--cpu-range");
    session.threads.cpus = *mask;
  }
  CpuMask& cpus = session.threads.cpus;
  const CpuMask usable = cpus.empty() ? thread_affinity() : cpus & thread_affinity();
  if (usable.empty()) return {};  // starting the threads reports the error
  if (session.threads.numa == NumaPolicy::isolate) cpus = numa_cpus_here(usable);
  if (cpus.empty()) return {};
  static_cast<void>(set_thread_affinity(cpus & usable));  // on failure, the threads try again and report it
  if (!has_threads) session.threads.n_threads = default_thread_count(cpus & usable);
  return {};
}

Result<> ContextArgs::log_schedules(const Session& session) const {
  if (!log_schedule) return {};
  TESSERA_ASSIGN(const std::string text, observe::describe_schedules(session));
  log(text);
  return {};
}

Result<std::shared_ptr<Registry>> open_registry() {
  const char* isa = std::getenv("TESSERA_ISA");
  auto registry = create_registry(isa == nullptr ? "" : isa);
  if (!registry && isa != nullptr) return forward_error(registry, "TESSERA_ISA");
  return registry;
}

ModelOptions model_options(const ModelArgs& model, const ContextArgs& context) {
  ModelOptions options = model.options;
  options.engine.threads = context.session.threads;
  options.fit.fits_ubatch = !context.has_ubatch;
  if (!options.path.empty()) return options;
  options.path = kBundledModelName;
  options.bytes = bundled_model();
  return options;
}

Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context) {
  TESSERA_ASSIGN(auto registry, open_registry());
  return tessera::open_model(std::move(registry), model_options(model, context));
}

LoadEvents LoadDisplay::events() {
  return {.progress =
              [this](float share) {
                if (!bar_) bar_.emplace("loading", process_.quiet);
                bar_->update(share);
                return !process_.interrupt.cancelled();
              },
          .on_choice = [this](std::string_view line) { show(line); },
          .on_warning = [this](std::string_view line) { show(fmt::format("warning: {}", line)); }};
}

void LoadDisplay::show(std::string_view line) {
  bar_.reset();
  if (!process_.quiet) log(with_flag_names(line));
}

Result<> load_session(LoadedModel& opened, const ContextArgs& context, const Context& process) {
  SessionOptions session = context.session;
  opened.speculation.extend(session);
  return load_session(opened, context, session, process);
}

Result<> load_session(LoadedModel& opened, const ContextArgs& context, const SessionOptions& session,
                      const Context& process) {
  for (const std::string& note : opened.registry->notes())
    if (process.verbose) log(note);
  LoadDisplay display(process);
  TESSERA_TRY(tessera::load_session(opened, session, display.events()));
  return context.log_schedules(*opened.session);
}

Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context, const Context& process) {
  TESSERA_ASSIGN(LoadedModel opened, open_model(model, context));
  if (model.options.path.empty() && !process.quiet)
    log("no model given: using the bundled one; -m FILE selects another");
  return opened;
}

Result<LoadedModel> load_model(const ModelArgs& model, const ContextArgs& context, const Context& process) {
  TESSERA_ASSIGN(LoadedModel loaded, open_model(model, context, process));
  TESSERA_TRY(load_session(loaded, context, process));
  return loaded;
}

Result<std::unique_ptr<ThreadPool>> create_side_threads(const ContextArgs& context) {
  ThreadPoolOptions options = context.session.threads;
  options.poll = 0;
  return ThreadPool::create(options);
}

}  // namespace tessera::cli
