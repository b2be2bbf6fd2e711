#include "tessera/cli/model_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/app/app.h"
#include "tessera/app/bundled_model.h"
#include "tessera/base/cpu_info.h"
#include "tessera/cli/adapter_args.h"
#include "tessera/cli/offload_args.h"
#include "tessera/cli/option_flags.h"
#include "tessera/observe/schedule_log.h"

namespace tessera::cli {

namespace {

std::function<Result<>(std::string_view)> set_cache_type(DType& target) {
  return [&target](std::string_view text) -> Result<> {
    const auto dtype = dtype_from_name(text);
    if (!dtype)
      return fail(ErrorCode::invalid_argument,
                  "'{}' is not a type (f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl)", text);
    target = *dtype;
    return {};
  };
}

std::function<Result<>(std::string_view)> set_load_mode(EngineOptions& options) {
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

std::function<Result<>(std::string_view)> set_priority(Priority& target) {
  return [&target](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(const int64_t level, parse_integer(text, -1, 3));
    target = static_cast<Priority>(level + 1);
    return {};
  };
}

std::function<Result<>(std::string_view)> set_activations(Activations& target) {
  return [&target](std::string_view text) -> Result<> {
    const auto activations = activations_from_name(text);
    if (!activations)
      return fail(ErrorCode::invalid_argument, "'{}' is not one of auto, f32, int8-32, int8-64, int8-128", text);
    target = *activations;
    return {};
  };
}

template <class T>
std::function<Result<>(std::string_view)> set_optional_real(std::optional<T>& target, float min, float max) {
  return [&target, min, max](std::string_view text) -> Result<> {
    TESSERA_ASSIGN(const float value, parse_real(text, min, max));
    target = static_cast<T>(value);
    return {};
  };
}

std::function<Result<>(std::string_view)> set_numa_policy(NumaPolicy& target) {
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

std::optional<Activations> activations_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, Activations> kNames[] = {{"auto", Activations::automatic},
                                                                 {"f32", Activations::float32},
                                                                 {"int8-32", Activations::int8_32},
                                                                 {"int8-64", Activations::int8_64},
                                                                 {"int8-128", Activations::int8_128}};
  const auto* found = std::ranges::find(kNames, name, [](const auto& entry) { return entry.first; });
  if (found == std::end(kNames)) return std::nullopt;
  return found->second;
}

void add_model_flag(FlagTable& table, std::string& path, std::string_view absent) {
  table.flags.push_back({"--model",
                         {"-m"},
                         "FILE",
                         "the GGUF model, or the first of its parts",
                         std::string(absent),
                         true,
                         set_string(path)});
}

Result<> want_model(const std::string& path) {
  if (path.empty()) return fail(ErrorCode::invalid_argument, "no model: give one with -m FILE or TESSERA_MODEL");
  return {};
}

void add_numa_flag(FlagTable& table, NumaPolicy& policy) {
  table.flags.push_back({"--numa",
                         {},
                         "POLICY",
                         "distribute: threads spread over the memory nodes; isolate: all on the node of the start; "
                         "numactl: on the CPUs given by numactl",
                         "the system places them",
                         false,
                         set_numa_policy(policy)});
}

// A flag a line, as a table.
// clang-format off
void ModelArgs::add_to(FlagTable& table) {
  add_model_flag(table, options.path, may_be_bundled ? "the bundled one" : "");
  auto& f = table.flags;
  EngineOptions& engine = options.engine;
  f.push_back({"--load-mode", {"-lm"}, "MODE", "none (read), mmap, mlock, mmap+mlock", "mmap", false, set_load_mode(engine)});
  f.push_back({"--no-mmap", {}, "", "read the file instead of mapping it", "", false,
               [&engine](std::string_view) -> Result<> {
                 engine.load = LoadMode::read;
                 return {};
               }});
  f.push_back({"--mlock", {}, "", "keep the weights in memory", "", false, set_switch(engine.lock_memory)});
  f.push_back({"--no-repack", {"-nr"}, "", "use weights where they lie instead of packing them", "", false,
               set_switch(engine.pack_weights, false)});
  f.push_back({"--check-tensors", {}, "", "refuse weights that are not finite", "", false, set_switch(engine.check_tensors)});
  add_offload_flags(table, engine.placement, options.fit);
  RopeOverrides& rope = engine.rope;
  f.push_back({"--rope-scaling", {}, "KIND", "none, linear, yarn", "the model's", false,
               [&rope](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(rope.scaling, nn::rope_scaling_from_name(text));
                 return {};
               }});
  f.push_back({"--rope-scale", {}, "X", "stretch the context by this factor", "the model's", false,
               set_optional_real(rope.factor, 1e-4f, 65536.0f)});
  f.push_back({"--rope-freq-scale", {}, "X", "the inverse of --rope-scale", "the model's", false,
               [&rope](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(const float scale, parse_real(text, 1.0f / 65536.0f, 1e4f));
                 rope.factor = 1.0f / scale;
                 return {};
               }});
  f.push_back({"--rope-freq-base", {}, "X", "base of the rotation frequencies", "the model's", false,
               set_optional_real(rope.freq_base, 1.0f, 1e12f)});
  f.push_back({"--yarn-orig-ctx", {}, "N", "YaRN: context the model was trained with", "the model's", false,
               set_optional_real(rope.original_context, 1.0f, 1.6e7f)});
  f.push_back({"--yarn-ext-factor", {}, "X", "YaRN: share of extrapolation", "the model's", false,
               set_optional_real(rope.yarn_ext, 0.0f, 1.0f)});
  f.push_back({"--yarn-attn-factor", {}, "X", "YaRN: magnitude", "the model's", false,
               set_optional_real(rope.attn_factor, 1e-6f, 1e6f)});
  f.push_back({"--yarn-beta-fast", {}, "X", "YaRN: turns from which pairs extrapolate", "32", false,
               set_optional_real(rope.yarn_beta_fast, 1e-6f, 1e6f)});
  f.push_back({"--yarn-beta-slow", {}, "X", "YaRN: turns up to which pairs interpolate", "1", false,
               set_optional_real(rope.yarn_beta_slow, 1e-6f, 1e6f)});
  add_adapter_flags(table, options.adapters);
}
// clang-format on

ContextArgs::ContextArgs() { session.threads.n_threads = default_thread_count(); }

// A flag a line, as a table.
// clang-format off
void ContextArgs::add_to(FlagTable& table) {
  auto& f = table.flags;
  f.push_back({"--ctx-size", {"-c"}, "N", "tokens of context", "0: the model's", true,
               set_integer(session.n_ctx, 0, kMaxContext)});
  f.push_back({"--batch-size", {"-b"}, "N", "prompt tokens per call", "2048", false, set_integer(n_batch, 1, kMaxContext)});
  f.push_back({"--ubatch-size", {"-ub"}, "N", "tokens computed at once", "512", false,
               [this, set = set_integer(session.n_ubatch, 1, 1 << 16)](std::string_view text) -> Result<> {
                 has_ubatch = true;
                 return set(text);
               }});
  f.push_back({"--cache-type-k", {"-ctk"}, "TYPE", "type of the K cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl", "f16", false,
               set_cache_type(session.type_k)});
  f.push_back({"--cache-type-v", {"-ctv"}, "TYPE", "type of the V cache", "f16", false, set_cache_type(session.type_v)});
  f.push_back({"--activations", {}, "TYPE",
               "what quantized weights are multiplied by: f32, or int8-N with a scale per up to N of 32, 64, 128 values", "auto: as the format needs", false,
               set_activations(session.activations)});
  f.push_back({"--threads", {"-t"}, "N", "threads", fmt::format("{} here", session.threads.n_threads), true,
               [this, set = set_integer(session.threads.n_threads, 1, ThreadPool::kMaxThreads)](std::string_view text) -> Result<> {
                 has_threads = true;
                 return set(text);
               }});
  f.push_back({"--cpu-mask", {"-C"}, "HEX", "CPUs to run on, as a mask", "", false, set_string(cpu_mask)});
  f.push_back({"--cpu-range", {"-Cr"}, "LO-HI", "CPUs to run on, as a range", "", false, set_string(cpu_range)});
  f.push_back({"--cpu-strict", {}, "0|1", "1: each thread stays on its own CPU", "0", false,
               [this](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(const int64_t strict, parse_integer(text, 0, 1));
                 session.threads.placement = strict == 1 ? Placement::strict : Placement::shared;
                 return {};
               }});
  f.push_back({"--prio", {}, "N", "-1 low, 0 normal, 1 medium, 2 high, 3 realtime", "0", false,
               set_priority(session.threads.priority)});
  f.push_back({"--poll", {}, "N", "0 to 100: how long idle threads wait awake", "50", false,
               set_integer(session.threads.poll, 0, 100)});
  add_numa_flag(table, session.threads.numa);
  f.push_back({"--log-sched", {}, "", "tell on stderr which device runs each node of a step, and why", "", false,
               set_switch(log_schedule)});
}
// clang-format on

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
  if (usable.empty()) return {};  // an error where threads are started
  if (session.threads.numa == NumaPolicy::isolate) cpus = numa_cpus_here(usable);
  if (cpus.empty()) return {};
  static_cast<void>(set_thread_affinity(cpus & usable));  // if refused, the threads try and tell
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
  if (!registry) return forward_error(registry, "TESSERA_ISA");
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
  if (!process_.quiet) log(with_flags(line));
}

Result<> load_session(LoadedModel& opened, const ContextArgs& context, const Context& process) {
  for (const std::string& note : opened.registry->notes())
    if (process.verbose) log(note);
  LoadDisplay display(process);
  TESSERA_TRY(tessera::load_session(opened, context.session, display.events()));
  return context.log_schedules(*opened.session);
}

Result<LoadedModel> load_model(const ModelArgs& model, const ContextArgs& context, const Context& process) {
  TESSERA_ASSIGN(LoadedModel loaded, open_model(model, context));
  if (model.options.path.empty() && !process.quiet)
    log("no model given, so this is the bundled one; -m FILE takes yours");
  TESSERA_TRY(load_session(loaded, context, process));
  return loaded;
}

Result<std::unique_ptr<ThreadPool>> create_side_threads(const ContextArgs& context) {
  ThreadPoolOptions options = context.session.threads;
  options.poll = 0;
  return ThreadPool::create(options);
}

}  // namespace tessera::cli
