#include "tessera/engine/loaded_model.h"

#include <algorithm>

#include "tessera/engine/speculative/model_drafter.h"

namespace tessera {

namespace {

constexpr int kMaxAttempts = 6;
constexpr int64_t kDraftContext = 8192;  // most tokens of a draft model; of longer texts it reads the end

void tell(const std::function<void(std::string_view)>& event, std::string_view line) {
  if (event && !line.empty()) event(line);
}

// A margin that reduces the plan of the fullest device to three quarters of its bytes.
uint64_t larger_margin(const Engine& engine, const MemoryReport& report, uint64_t margin) {
  for (const Device* device : engine.devices()) {
    if (device == &engine.placement().cpu()) continue;
    const uint64_t wanted = report.bytes_of(device->name()) / 4 * 3, free = device->memory().free_bytes;
    margin = std::max(margin, free - std::min(free, wanted));
  }
  return margin;
}

Result<std::unique_ptr<Session>> create_embeddings(const LoadedModel& model, const SessionOptions& first) {
  if (!model.fit.embeddings) return nullptr;
  return Session::create(model.engine, embedding_session(*model.engine, *model.fit.embeddings, first));
}

Result<std::unique_ptr<PredictionHead>> create_head(const LoadedModel& model, Session& session) {
  if (session.options().part != SessionPart::model_with_hidden) return nullptr;
  return PredictionHead::create(model.engine, session);
}

Result<> load_draft(LoadedModel& model, const SessionOptions& options, const LoadEvents& events) {
  if (model.draft_engine == nullptr || model.speculation.follower != nullptr) return {};
  TESSERA_TRY(model.draft_engine->load(events.progress));
  TESSERA_ASSIGN(model.draft, Session::create(model.draft_engine, options, model.session.get()));
  return {};
}

}  // namespace

MemoryReport LoadedModel::allocated_memory() const {
  MemoryReport report = session->allocated_memory();
  if (draft) report.add(draft->allocated_memory().parts);
  if (head) report.add(head->allocated_memory().parts);
  if (embeddings) report.add_session(embeddings->allocated_memory());
  return report;
}

Result<> LoadedModel::follow_with_head() {
  head = nullptr;  // an older one follows the session until it is gone
  TESSERA_ASSIGN(head, create_head(*this, *session));
  return {};
}

Result<LoadedModel> open_model(std::shared_ptr<const Registry> registry, const ModelOptions& options) {
  LoadedModel model{.registry = std::move(registry), .fit = options.fit};
  TESSERA_ASSIGN(auto files, options.bytes.empty() ? ModelFiles::open(options.path)
                                                   : ModelFiles::parse(options.bytes, options.path));
  EngineOptions engine = options.engine;
  if (options.speculation.uses(DraftKind::head)) engine.head = HeadUse::needed;
  if (options.tries_head && engine.head == HeadUse::none) engine.head = HeadUse::optional;
  TESSERA_ASSIGN(model.engine, Engine::open(*model.registry, std::move(files), engine));
  for (const auto& [path, scale] : options.adapters.loras) {
    TESSERA_ASSIGN(auto adapter, Adapter::open_lora(*model.engine, path));
    model.adapters.push_back({std::move(adapter), scale});
  }
  for (const auto& [path, scale] : options.adapters.control_vectors) {
    TESSERA_ASSIGN(auto adapter, Adapter::open_control_vector(*model.engine, path, options.adapters.layers));
    model.adapters.push_back({std::move(adapter), scale});
  }
  model.speculation = options.speculation;
  if (options.draft_path.empty()) return model;
  EngineOptions draft = options.engine;
  draft.target = model.engine;
  TESSERA_ASSIGN(model.draft_engine, Engine::open(*model.registry, options.draft_path, draft));
  TESSERA_TRY(require_draft_model(*model.draft_engine, *model.engine));
  if (!model.draft_engine->model().info().follower) return model;
  if (options.speculation.uses(DraftKind::head))
    return fail(ErrorCode::invalid_argument,
                "{}: this draft model takes the place of the prediction head: want guesses by one of them",
                options.draft_path);
  model.speculation.follower = model.draft_engine;
  return model;
}

Result<SessionOptions> plan_draft(LoadedModel& model, const SessionOptions& asked) {
  model.fit.beside.clear();
  SessionOptions session;
  if (model.draft_engine == nullptr || model.speculation.follower != nullptr) return session;
  const int64_t n_ctx = asked.n_ctx > 0 ? asked.n_ctx : model.engine->model().info().n_ctx_train;
  const int64_t n_most = std::min(kDraftContext, model.draft_engine->model().info().n_ctx_train);
  session = {.n_ctx = std::min(n_ctx, n_most * asked.n_sequences),
             .n_ubatch = asked.n_ubatch,
             .n_sequences = asked.n_sequences,
             .n_checkpoints = asked.n_sequences,
             .type_k = asked.type_k,
             .type_v = asked.type_v,
             .activations = asked.activations,
             .attention = asked.attention,
             .threads = asked.threads};
  FitOptions options = model.fit;
  options.embeddings.reset();
  TESSERA_ASSIGN(Fitted fitted, fit(*model.draft_engine, {}, session, options));
  model.fit.beside = std::move(fitted.report.parts);
  return fitted.session;
}

Result<> load_weights(LoadedModel& model, const LoadEvents& events) {
  TESSERA_TRY(model.engine->load(events.progress));
  for (const std::string& warning : model.engine->warnings()) tell(events.on_warning, warning);
  for (const SessionAdapter& one : model.adapters) TESSERA_TRY(one.adapter->load());
  return {};
}

Result<> load_session(LoadedModel& model, const SessionOptions& asked, const LoadEvents& events) {
  TESSERA_ASSIGN(const SessionOptions draft, plan_draft(model, asked));
  model.head = nullptr;  // it uses the older session
  Engine& engine = *model.engine;
  const PlacementOptions placement = engine.placement_options();
  FitOptions options = model.fit;
  for (int attempt = 1;; ++attempt) {
    TESSERA_ASSIGN(const Fitted fitted, fit(engine, model.adapters, asked, options));
    tell(events.on_choice, fitted.choice);
    auto loaded = load_weights(model, events);
    if (loaded && model.speculation.follower != nullptr && !model.draft_engine->is_loaded())
      loaded = model.draft_engine->load(events.progress);
    auto session = loaded ? Session::create(model.engine, fitted.session) : forward_error(loaded);
    auto head = session ? create_head(model, **session) : forward_error(session);
    auto embeddings = head ? create_embeddings(model, fitted.session) : forward_error(head);
    if (embeddings) {
      model.session = std::move(*session);
      model.head = std::move(*head);
      model.embeddings = std::move(*embeddings);
      tell(events.on_warning, model.session->warning());
      return load_draft(model, draft, events);
    }
    const bool is_last = attempt == kMaxAttempts || engine.placement().n_offloaded() == 0;
    if (embeddings.error().code() != ErrorCode::out_of_memory || !options.is_on || is_last ||
        placement.n_gpu_layers != kAutoLayers)
      return forward_error(embeddings);
    tell(events.on_choice, "fit: less is tried: " + embeddings.error().message());
    if (head) head->reset();
    if (session) session->reset();
    // Frees loaded weights before the devices report their free memory again.
    TESSERA_TRY(engine.place(placement));
    for (const SessionAdapter& one : model.adapters) TESSERA_TRY(one.adapter->place());
    options.margin_bytes =
        attempt + 1 == kMaxAttempts ? UINT64_MAX : larger_margin(engine, fitted.report, options.margin_bytes);
  }
}

}  // namespace tessera
