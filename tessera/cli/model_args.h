// Flags shared by commands: the model and its loading, the context, the threads. Names and defaults are the same as in
// llama.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/cli/progress.h"
#include "tessera/engine/generate.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// Adds -m, the flag of every command that opens a model, and the flags for models of a hub. absent: the default model,
/// for help.
void add_model_flag(FlagTable& table, std::string& path, std::string_view absent = "");
/// Fails if the path is empty. Errors: invalid_argument.
Result<> require_model(const std::string& path);

/// Adds --threads, the flag of every command that starts threads.
void add_threads_flag(FlagTable& table, int32_t& n_threads);
/// Adds --numa, the flag of every command with --threads.
void add_numa_flag(FlagTable& table, NumaPolicy& policy);

struct ModelArgs {
  bool may_be_bundled = false;  // without a path, use the bundled model
  bool bounds_memory = true;    // add_to() adds --memory
  ModelOptions options{};

  void add_to(FlagTable& table);
  Result<> check() const { return may_be_bundled ? Result<>{} : require_model(options.path); }
};

struct ContextArgs {
  SessionOptions session;
  int64_t n_batch = GenerateOptions{}.n_batch;
  std::string cpu_mask, cpu_range;
  bool has_threads = false;  // --threads was given
  bool has_ubatch = false;   // --ubatch-size was given
  bool has_binding = false;  // --cpu-strict or --numa was given
  bool is_untuned = false;   // --no-tuning was given
  bool log_schedule = false;

  ContextArgs();
  void add_to(FlagTable& table);
  /// Resolves the CPU sets and the best number of threads on them. If flags name CPUs, or --numa isolate selects a
  /// node, pins the calling thread there. The threads that it starts (also for loading) and the memory that they fill
  /// stay there as well. Errors: invalid_argument.
  Result<> check();
  /// Whether flags say anything about the number of threads or their CPUs.
  bool places_threads() const { return has_threads || has_binding || !cpu_mask.empty() || !cpu_range.empty(); }
  /// With --log-sched, prints a session's schedules to stderr. Errors: the errors of Session::step_schedule().
  Result<> log_schedules(const Session& session) const;
};

/// Creates the registry of this machine. TESSERA_ISA selects the instruction set.
Result<std::shared_ptr<Registry>> open_registry();

/// Returns options for the library's open_model(), with the threads of the context.
ModelOptions model_options(const ModelArgs& model, const ContextArgs& context);

/// Opens a model and its adapters without loading them, on the devices of open_registry().
Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context);
/// The same, and says on stderr if it is the bundled model.
Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context, const Context& process);

/// Shows the loading of a model on stderr: progress, choices, warnings.
class LoadDisplay {
 public:
  explicit LoadDisplay(const Context& process) : process_(process) {}
  /// The display must outlive the returned events.
  LoadEvents events();

 private:
  void show(std::string_view line);

  const Context& process_;
  std::optional<ProgressBar> bar_;
};

/// Loads an opened model and creates its session with the library's load_session(). Shows progress on stderr.
Result<> load_session(LoadedModel& opened, const ContextArgs& context, const Context& process);
/// The same with options other than those of the flags.
Result<> load_session(LoadedModel& opened, const ContextArgs& context, const SessionOptions& session,
                      const Context& process);

/// Calls open_model() and load_session().
Result<LoadedModel> load_model(const ModelArgs& model, const ContextArgs& context, const Context& process);

/// Parses the type of a KV cache. The device reports the types that it supports.
/// Errors: invalid_argument, with a list of the types.
Result<DType> cache_type_from_name(std::string_view name);

/// Parses "auto", "f32", "int8-32", ...
std::optional<ActivationPrecision> activations_from_name(std::string_view name);
inline constexpr std::pair<std::string_view, AttentionPrecision> kAttentionNames[] = {
    {"auto", AttentionPrecision::automatic},
    {"f32", AttentionPrecision::float32},
    {"int16", AttentionPrecision::int16}};

/// Creates as many threads as the session has, for work on its results. They sleep while the session computes.
Result<std::unique_ptr<ThreadPool>> create_side_threads(const ContextArgs& context);

}  // namespace tessera::cli
