// The flags that commands share: the model and how to load it, the context, the threads. Names and
// defaults are those that GGUF users know.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/cli/adapter_args.h"
#include "tessera/cli/command.h"
#include "tessera/engine/fit.h"

namespace tessera::cli {

/// -m, which every command that opens a model has; `absent`: what is opened without it, for help.
void add_model_flag(FlagTable& table, std::string& path, std::string_view absent = "");
/// Whether one was given. Errors: invalid_argument.
Result<> want_model(const std::string& path);

/// --numa, which every command with --threads has.
void add_numa_flag(FlagTable& table, NumaPolicy& policy);

struct ModelArgs {
  std::string path{};                                  // empty: the bundled model
  bool may_be_bundled = false;                         // else a path must be given
  EngineOptions engine{.placement = {.devices = {}}};  // by default each GPU there is
  FitOptions fit{};
  AdapterArgs adapters{};

  void add_to(FlagTable& table);
  Result<> check() const { return may_be_bundled ? Result<>{} : want_model(path); }
};

struct ContextArgs {
  SessionOptions session;
  int64_t n_batch = 2048;
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
};

/// An engine with its adapters and a session with the memory that was planned for them, and the registry they live on.
struct LoadedModel {
  std::unique_ptr<Registry> registry;
  std::shared_ptr<Engine> engine;
  std::vector<SessionAdapter> adapters;  // that sessions on it begin with
  std::unique_ptr<Session> session;
  FitOptions fit;
};

/// The registry of this machine; TESSERA_ISA picks the instruction set.
Result<std::unique_ptr<Registry>> open_registry();

/// What may be chosen for a session of this context: what no flag has set.
FitOptions fit_of(const LoadedModel& opened, const ContextArgs& context);

/// Opens a model and its adapters without loading them, on the devices of open_registry().
Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context);
/// The same on other devices.
Result<LoadedModel> open_model(const ModelArgs& model, const ContextArgs& context, std::unique_ptr<Registry> registry);

/// "auto", "f32", "int8-32", ...
std::optional<Activations> activations_from_name(std::string_view name);

/// Loads an opened model's weights, with progress on stderr. Errors: those of Engine::load.
Result<> load_weights(Engine& engine, Context& process);

/// Loads an opened model and its adapters and makes its session, with progress on stderr. Errors: also out_of_memory,
/// when the plan does not fit what the machine has left, before anything is loaded.
Result<> load_session(LoadedModel& opened, const ContextArgs& context, Context& process);

/// open_model() and load_session().
Result<LoadedModel> load_model(const ModelArgs& model, const ContextArgs& context, Context& process);

/// As many threads as the session's, for work on its results: they sleep while the session computes.
Result<std::unique_ptr<ThreadPool>> create_side_threads(const ContextArgs& context);

}  // namespace tessera::cli
