// Opens and loads a model for a program: an engine, its adapters and a session, from one set of options. The command
// line, a server and a C interface open models here, so all get the same plan, the same fit and the same warnings.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/fit.h"
#include "tessera/engine/speculative/prediction_head.h"
#include "tessera/engine/speculative/speculation.h"

namespace tessera {

struct AdapterSource {
  std::string path;
  float scale = 1.0f;
};

struct AdapterSources {
  std::vector<AdapterSource> loras, control_vectors;
  LayerSpan layers{};  // layers to which control vectors are added
};

struct ModelOptions {
  std::string path{};                  // of the GGUF file, or of the first of its parts
  std::span<const std::byte> bytes{};  // a GGUF file in memory, used instead of the file; path names it in messages
  EngineOptions engine{.placement = {.devices = {}}};  // default: all GPUs
  FitOptions fit{};
  AdapterSources adapters{};
  SpeculationOptions speculation{};
  bool tries_head = false;   // load the prediction head if the file has a supported one, whatever `speculation` is
  std::string draft_path{};  // of the GGUF file of a draft model; empty: none
};

/// Callbacks while a model is loaded, for display. Empty functions are not called.
struct LoadEvents {
  LoadProgress progress{};                             // see Engine::load()
  std::function<void(std::string_view)> on_choice{};   // a line on the settings chosen so that the model fits
  std::function<void(std::string_view)> on_warning{};  // a line on a request that could not be met and is not fatal
};

/// Destroys the head first, then the sessions, adapters, engine and registry.
struct LoadedModel {
  std::shared_ptr<const Registry> registry{};
  std::shared_ptr<Engine> engine{};
  std::vector<SessionAdapter> adapters{};  // with the initial scales of sessions
  FitOptions fit{};
  SpeculationOptions speculation{};
  std::shared_ptr<Engine> draft_engine{};  // of a draft model; null: none
  std::unique_ptr<Session> draft{};        // of draft_engine; null before load_session(), and if `head` runs it
  std::unique_ptr<Session> session{};      // null before load_session()
  std::unique_ptr<Session> embeddings{};   // for embeddings beside it, if fit.embeddings asks for it
  std::unique_ptr<PredictionHead> head{};  // follows the session, with a draft model or not; null: none

  /// Lets the prediction head follow the session, if the session has what it takes. Errors: those of
  /// PredictionHead::create().
  Result<> follow_with_head();
  /// The allocated bytes, once the sessions are there.
  MemoryReport allocated_memory() const;
  /// A speculator for a text of the session, which must be there; null: no speculation. With a draft model there may be
  /// one at a time. Errors: those of the library's create_speculator().
  Result<std::unique_ptr<Speculator>> create_speculator() const {
    return tessera::create_speculator(speculation, engine->model().info().n_vocab,
                                      {.session = draft.get(), .head = head.get()});
  }
};

/// Opens a model, its adapters and its draft model and plans their memory; loads nothing. Errors: those of ModelFiles,
/// Engine::open(), Adapter and require_draft_model().
Result<LoadedModel> open_model(std::shared_ptr<const Registry> registry, const ModelOptions& options);

/// Loads the weights of an opened model and of its adapters, as placed. Errors: those of Engine::load() and
/// Adapter::load().
Result<> load_weights(LoadedModel& model, const LoadEvents& events = {});

/// Plans the draft model of an opened model beside a session as asked, on the devices as they are, and puts its bytes
/// into model.fit.beside. Returns the options of its session. Does nothing without one, or with one that takes hidden
/// states, which plan_sessions() counts. Errors: those of fit().
Result<SessionOptions> plan_draft(LoadedModel& model, const SessionOptions& asked);

/// Fits an opened model to the devices (see fit()), loads it and creates its session, or two. If a device still runs
/// out of memory, retries a few times with a smaller plan for the devices. Errors: those of fit(), load_weights() and
/// Session::create(). If no plan fits, out_of_memory is returned before anything is loaded. With speculation `asked`
/// has what SpeculationOptions::extend() adds.
Result<> load_session(LoadedModel& model, const SessionOptions& asked, const LoadEvents& events = {});

}  // namespace tessera
