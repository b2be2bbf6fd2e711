// The flags that commands share: the model and how to load it, the context, the threads. Names and
// defaults are those that GGUF users know.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/engine/generate.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// -m, which every command that opens a model has; `absent`: what is opened without it, for help.
void add_model_flag(FlagTable& table, std::string& path, std::string_view absent = "");
/// Whether one was given. Errors: invalid_argument.
Result<> want_model(const std::string& path);

/// --threads, which every command with threads of its own has.
void add_threads_flag(FlagTable& table, int32_t& n_threads);
/// --numa, which every command with --threads has.
void add_numa_flag(FlagTable& table, NumaPolicy& policy);

struct ModelArgs {
  bool may_be_bundled = false;  // where no path is given
  ModelOptions options{};

  void add_to(FlagTable& table);
  Result<> check() const { return may_be_bundled ? Result<>{} : want_model(options.path); }
};

struct ContextArgs {
  SessionOptions session;
  int64_t n_batch = GenerateOptions{}.n_batch;
  std::string cpu_mask, cpu_range;
  bool has_threads = false;  // --threads was given
  bool has_ubatch = false;   // --ubatch-size was given
  bool log_schedule = false;

  ContextArgs();
  void add_to(FlagTable& table);
  /// Resolves the CPU sets and the number of threads that is best on them. Where CPUs are named, or a node by --numa
  /// isolate, the calling thread stays there from here on, and so do the threads that it starts (those that load too)
  /// and the memory that they fill. Errors: invalid_argument.
  Result<> check();
  /// With --log-sched, tells on stderr how a session computes its steps. Errors: those of Session::step_schedule().
  Result<> log_schedules(const Session& session) const;
};

/// The registry of this machine; TESSERA_ISA picks the instruction set.
Result<std::shared_ptr<Registry>> open_registry();

/// What open_model() of the library takes, on the threads of the context.
ModelOptions model_options(const ModelArgs& model, const ContextArgs& context);

/// Opens a model and its adapters without loading them, on the devices of open_registry().
Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context);

/// Shows on stderr how a model is loaded: progress, choices, warnings.
class LoadDisplay {
 public:
  explicit LoadDisplay(const Context& process) : process_(process) {}
  /// The display outlives them.
  LoadEvents events();

 private:
  void show(std::string_view line);

  const Context& process_;
  std::optional<ProgressBar> bar_;
};

/// Loads an opened model and makes its session, as the library's load_session(), with progress on stderr.
Result<> load_session(LoadedModel& opened, const ContextArgs& context, const Context& process);

/// open_model() and load_session().
Result<LoadedModel> load_model(const ModelArgs& model, const ContextArgs& context, const Context& process);

/// The types of a KV cache. Which of them a device has, it says itself.
/// Errors: invalid_argument, listing them.
Result<DType> cache_type_from_name(std::string_view name);

/// "auto", "f32", "int8-32", ...
std::optional<Activations> activations_from_name(std::string_view name);

/// As many threads as the session's, for work on its results: they sleep while the session computes.
Result<std::unique_ptr<ThreadPool>> create_side_threads(const ContextArgs& context);

}  // namespace tessera::cli
