// A model as a program has it: options go in; an engine with its adapters and a session come out. The command line, a
// server and a C interface open models here, so that each gets the same plan, the same fit and the same warnings.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/fit.h"

namespace tessera {

struct AdapterSource {
  std::string path;
  float scale = 1.0f;
};

struct AdapterSources {
  std::vector<AdapterSource> loras, control_vectors;
  LayerSpan layers{};  // that control vectors are added to
};

struct ModelOptions {
  std::string path{};                  // of the GGUF file, or of the first of its parts
  std::span<const std::byte> bytes{};  // a GGUF file in memory, which is used instead; path names it in messages
  EngineOptions engine{.placement = {.devices = {}}};  // by default each GPU there is
  FitOptions fit{};
  AdapterSources adapters{};
};

/// What a program may show while a model is loaded. Empty functions are not called.
struct LoadEvents {
  LoadProgress progress{};                             // see Engine::load()
  std::function<void(std::string_view)> on_choice{};   // a line on what was chosen so that the model fits
  std::function<void(std::string_view)> on_warning{};  // a line on what could not be had and was done without
};

/// The session ends first, then adapters, engine and registry.
struct LoadedModel {
  std::shared_ptr<const Registry> registry{};
  std::shared_ptr<Engine> engine{};
  std::vector<SessionAdapter> adapters{};  // that sessions begin with
  FitOptions fit{};
  std::unique_ptr<Session> session{};  // null before load_session()
};

/// Opens a model and its adapters and plans their memory; loads nothing. Errors: those of ModelFiles, Engine::open()
/// and Adapter.
Result<LoadedModel> open_model(std::shared_ptr<const Registry> registry, const ModelOptions& options);

/// Loads an opened model's weights and those of its adapters, where they are placed. Errors: those of Engine::load()
/// and Adapter::load().
Result<> load_weights(LoadedModel& model, const LoadEvents& events = {});

/// Fits an opened model to the devices (see fit()), loads it and makes its session. If a device runs out of memory all
/// the same, tries again with a smaller plan for the devices, a few times. Errors: those of fit(), load_weights() and
/// Session::create(); out_of_memory comes before anything is loaded where the plan shows it.
Result<> load_session(LoadedModel& model, const SessionOptions& asked, const LoadEvents& events = {});

}  // namespace tessera
