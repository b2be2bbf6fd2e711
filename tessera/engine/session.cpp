#include "tessera/engine/session.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/engine/attention_precision.h"

namespace tessera {

namespace {

// The model's layer that writes each layer of the encoder's cache: first the layers of the encoder, then the decoder's
// view of the encoder's output.
std::vector<int64_t> encoder_blocks_of(const ModelInfo& model) {
  std::vector<int64_t> blocks;
  const int64_t n_encoder = static_cast<int64_t>(model.encoder_layers.size()) - model.n_layers;
  for (int64_t i = 0; i < n_encoder; ++i) blocks.push_back(i);
  for (int64_t i = 0; i < model.n_layers; ++i) blocks.push_back(i);
  return blocks;
}

Result<const Model*> part_of_model(const Engine& engine, const SessionOptions& options) {
  const Model& model = engine.model();
  const bool is_head = options.part == SessionPart::head;
  if (model.info().follower && !is_head)
    return fail(ErrorCode::invalid_argument, "{}: a draft model ({}), which takes hidden states", engine.files().name(),
                model.info().architecture);
  if (options.part == SessionPart::model || model.info().follower) return &model;
  if (!is_head && options.follower != nullptr) return &model;
  const Model* head = model.head(options.head_block);
  if (head == nullptr)
    return fail(ErrorCode::invalid_argument, "{}: no prediction head was loaded", engine.files().name());
  return is_head ? head : &model;
}

Result<SessionOptions> checked_options(const Engine& engine, SessionOptions options) {
  const ModelInfo& model = engine.model().info();
  if (options.n_ctx == 0) options.n_ctx = model.n_ctx_train;
  if (options.n_ubatch < 1 || options.n_ubatch > kMaxUbatch)
    return fail(ErrorCode::invalid_argument, "micro-batch of {} tokens, want 1 to {}", options.n_ubatch, kMaxUbatch);
  options.n_ubatch = std::min(options.n_ubatch, std::max<int64_t>(options.n_ctx, 1));
  if (options.n_outputs < 1 || options.n_outputs > kMaxContext)
    return fail(ErrorCode::invalid_argument, "{} outputs, want 1 to {}", options.n_outputs, kMaxContext);
  if (!options.embeddings && !model.has_logits)
    return fail(ErrorCode::unsupported, "{}: an encoder ({}), which gives embeddings but no logits",
                engine.files().name(), model.architecture);
  return options;
}

}  // namespace

// Everything but memory: plan() measures the result, create() allocates it.
Result<std::unique_ptr<Session>> Session::prepare(const Engine& engine, const SessionOptions& options,
                                                  const Session* beside) {
  std::unique_ptr<Session> session(new Session);
  TESSERA_ASSIGN(session->model_, part_of_model(engine, options));
  TESSERA_ASSIGN(session->options_, checked_options(engine, options));
  session->options_.attention = attention_precision(session->model_->info(), engine.files(), session->options_);
  TESSERA_TRY(session->plan_memory(engine));
  TESSERA_ASSIGN(session->adapters_, AdapterSet::create(engine, options.adapters, session->options_.n_sequences));
  TESSERA_ASSIGN(session->graphs_,
                 StepGraphs::create(engine, *session->model_, session->options_, *session->memory_, session->adapters_,
                                    {.graphs = beside == nullptr ? nullptr : beside->graphs_.get(),
                                     .memory = beside == nullptr ? nullptr : beside->memory_.get()}));
  return session;
}

Result<> Session::plan_memory(const Engine& engine) {
  const ModelInfo& model = model_->info();
  const ModelPlacement& placement = engine.placement();
  SequenceMemoryConfig config{.kv_layers = model.kv_layers,
                              .recurrent_layers = model.recurrent_layers,
                              .kv_devices = placement.caches_of(model.kv_blocks),
                              .recurrent_devices = placement.caches_of(model.recurrent_blocks),
                              .type_k = options_.type_k,
                              .type_v = options_.type_v,
                              .n_ctx = options_.n_ctx,
                              .n_sequences = options_.n_sequences,
                              .n_ubatch = options_.n_ubatch,
                              .n_checkpoints = options_.n_checkpoints,
                              .n_retained_tokens = options_.n_cache_tokens,
                              .n_marks = options_.n_cache_marks};
  if (model.has_encoder()) {
    // A session for embeddings runs the encoder alone, so its tokens take the place of the decoder's.
    auto& layers = options_.embeddings ? config.kv_layers : config.prompt_layers;
    auto& devices = options_.embeddings ? config.kv_devices : config.prompt_devices;
    layers = model.encoder_layers;
    devices = placement.caches_of(encoder_blocks_of(model));
  }
  TESSERA_ASSIGN(memory_, SequenceMemory::plan(placement.cpu(), std::move(config)));
  return {};
}

Result<MemoryReport> Session::plan(const Engine& engine, const SessionOptions& options, const Session* beside) {
  SessionOptions planned = options;
  // The choice would read weights, and memory does not depend on it.
  if (planned.attention == AttentionPrecision::automatic) planned.attention = AttentionPrecision::float32;
  TESSERA_ASSIGN(const auto session, prepare(engine, planned, beside));
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->graphs_->largest_graphs());
  TESSERA_ASSIGN(const std::vector<ComputeBytes> compute, session->executor().measure(graphs));
  const auto rows = checked_mul<uint64_t>(static_cast<uint64_t>(session->options_.n_outputs),
                                          static_cast<uint64_t>(session->row_width()) * sizeof(float));
  const auto hidden = static_cast<uint64_t>(session->most_hidden()) * sizeof(float);
  const auto output = rows ? checked_add<uint64_t>(*rows, hidden) : std::nullopt;
  if (!output) return fail(ErrorCode::limit, "output rows: size overflows");
  using Kind = MemoryPart::Kind;
  MemoryReport report{engine.planned_memory()};
  for (const auto& [adapter, scale] : options.adapters) report.add(adapter->planned_memory());
  report.add(memory_parts(Kind::cache, session->memory_->planned_memory()));
  std::vector<TypeBytes> computed;
  for (const ComputeBytes& bytes : compute) computed.push_back({bytes.memory, bytes.total()});
  report.add(memory_parts(Kind::compute, computed));
  report.parts.push_back({Kind::output, "host", "host", to_size(*output)});
  return report;
}

Result<std::unique_ptr<const Session>> Session::plan_session(const Engine& engine, const SessionOptions& options) {
  return prepare(engine, options);
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Engine> engine, const SessionOptions& options,
                                                 const Session* beside) {
  if (!engine->is_loaded()) return fail(ErrorCode::internal, "the engine is not loaded");
  for (const auto& [adapter, scale] : options.adapters)
    if (!adapter->is_loaded()) return fail(ErrorCode::internal, "{}: the adapter is not loaded", adapter->name());
  TESSERA_ASSIGN(auto session, prepare(*engine, options, beside));
  session->engine_ = std::move(engine);
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->graphs_->largest_graphs());
  TESSERA_TRY(session->memory_->allocate());
  TESSERA_TRY(session->graphs_->executor().reserve(graphs));
  session->rows_.resize(to_size(session->options_.n_outputs * session->row_width()));
  session->hidden_rows_.resize(to_size(session->most_hidden()));
  return session;
}

MemoryReport Session::allocated_memory() const {
  using Kind = MemoryPart::Kind;
  MemoryReport report{engine_->allocated_memory()};
  for (const auto& [adapter, scale] : options_.adapters) report.add(adapter->allocated_memory());
  report.add(memory_parts(Kind::cache, memory_->allocated_memory()));
  const std::vector<size_t> reserved = executor().reserved_bytes();
  std::vector<TypeBytes> computed;
  for (size_t m = 0; m < reserved.size(); ++m) computed.push_back({executor().memories()[m], reserved[m]});
  report.add(memory_parts(Kind::compute, computed));
  report.parts.push_back({Kind::output, "host", "host", (rows_.size() + hidden_rows_.size()) * sizeof(float)});
  return report;
}

Result<> Session::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  return memory_->copy(from, to, begin, end, graphs_->cells());
}

Result<> Session::require_shiftable() const {
  if (memory_->kv().has_entries())
    return fail(ErrorCode::unsupported, "{}: tokens cannot be shifted: entries stand for several of them",
                model_->info().architecture);
  if (!model_->weights().has("position_embd.weight")) return {};
  return fail(ErrorCode::unsupported, "{}: tokens cannot be shifted: they are stored with learned positions",
              model_->info().architecture);
}

Result<> Session::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_TRY(require_shiftable());
  return memory_->shift(sequence, begin, end, delta, graphs_->cells());
}

Result<std::vector<std::byte>> Session::save_state(int32_t sequence) {
  return memory_->save(sequence, engine_->fingerprint(), graphs_->cells());
}

Result<> Session::restore_state(int32_t sequence, std::span<const std::byte> state) {
  return memory_->restore(sequence, engine_->fingerprint(), state, graphs_->cells());
}

Result<> Session::require_retainable() const {
  const ModelInfo& info = model_->info();
  const bool is_causal = options_.embeddings ? info.embeds_causally() : info.is_causal;
  if (is_causal && !has_encoder()) return {};
  return fail(ErrorCode::unsupported, "{}: the start of a sequence cannot be reused: it depends on other tokens",
              info.architecture);
}

Result<StepCost> Session::step_cost(int64_t n_tokens, int64_t n_outputs) const {
  TESSERA_ASSIGN(const Graph graph, graphs_->decode_graph({n_tokens, n_outputs, adapters_.initial()}));
  return tessera::step_cost(graph);
}

Result<Schedule> Session::step_schedule(int64_t n_tokens, int64_t n_outputs) const {
  TESSERA_ASSIGN(Graph graph, graphs_->decode_graph({n_tokens, n_outputs, adapters_.initial()}));
  return executor().schedule(std::move(graph));
}

}  // namespace tessera
