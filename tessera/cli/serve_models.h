// The models of tessera serve: the one of -m, or those of --models-dir and --models-preset. Opens, plans and loads them
// with the flags of the command line and of the presets.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/cli/serve_args.h"

namespace tessera::cli {

/// A flag as the command line or the environment gave it.
struct GivenFlag {
  std::string name;
  std::string value;  // "" for a switch
};

class ServeModels final : public server::ModelSource {
 public:
  /// `args` and `process` must outlive the object. Errors: those of open_registry().
  static Result<std::unique_ptr<ServeModels>> create(const ServeArgs& args, std::vector<GivenFlag> given,
                                                     const Context& process);

  /// Opens the only model and plans it, so that its errors come before the sockets open. Does nothing for several
  /// models.
  Result<> open_first();

  /// Options for the registry of models: --models-max, --memory (by default the memory that is free now), ...
  server::RegistryOptions registry_options() const;

  Result<std::vector<server::CatalogEntry>> list() override;
  /// The number of models that list() found last, of several.
  size_t n_listed() const { return n_listed_; }
  Result<server::PlannedModel> plan(const server::CatalogEntry& entry) override;

 private:
  ServeModels(const ServeArgs& args, std::vector<GivenFlag> given, const Context& process)
      : args_(args), given_(std::move(given)), process_(process) {}

  Result<std::shared_ptr<ServeArgs>> args_of(const server::CatalogEntry& entry) const;
  // The threads that load a model. Beside loaded models, one thread of low priority does, so that streams of these are
  // not slowed down.
  enum class Pace : uint8_t { full, beside_others };
  Pace pace() const;
  Result<LoadedModel> open(const ServeArgs& args, Pace pace) const;
  Result<server::ReadyModel> load(LoadedModel opened, const ServeArgs& args, const server::CatalogEntry& entry,
                                  const LoadProgress& progress) const;

  const ServeArgs& args_;
  const std::vector<GivenFlag> given_;
  const Context& process_;
  std::shared_ptr<Registry> registry_;
  std::atomic<size_t> n_listed_{0};
  std::vector<std::weak_ptr<const Engine>> loaded_;  // expired: unloaded
  std::optional<server::PlannedModel> first_;        // of open_first(), until plan() takes it
};

}  // namespace tessera::cli
