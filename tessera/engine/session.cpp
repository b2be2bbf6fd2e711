#include "tessera/engine/session.h"

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/base/checked.h"
#include "tessera/nn/linear.h"

namespace tessera {

namespace {

constexpr int64_t kMaxUbatch = 1 << 16;
// Prepared graphs that a session keeps: shapes that recur (prefill, its last part, decode) stay, strays go.
constexpr size_t kMaxDecoders = 16;
constexpr size_t kMaxLanes = 4;

// The model's layer that writes each layer of the encoder's cache: those of the encoder, then what each layer of the
// decoder sees of it.
std::vector<int64_t> encoder_blocks_of(const ModelInfo& model) {
  std::vector<int64_t> blocks;
  const int64_t n_encoder = static_cast<int64_t>(model.encoder_layers.size()) - model.n_layers;
  for (int64_t i = 0; i < n_encoder; ++i) blocks.push_back(i);
  for (int64_t i = 0; i < model.n_layers && model.has_encoder(); ++i) blocks.push_back(i);
  return blocks;
}

Result<SessionOptions> checked_options(const Engine& engine, SessionOptions options) {
  if (options.n_ctx == 0) options.n_ctx = engine.model().info().n_ctx_train;
  if (options.n_ubatch < 1 || options.n_ubatch > kMaxUbatch)
    return fail(ErrorCode::invalid_argument, "micro-batch of {} tokens, want 1 to {}", options.n_ubatch, kMaxUbatch);
  options.n_ubatch = std::min(options.n_ubatch, std::max<int64_t>(options.n_ctx, 1));
  if (options.n_outputs < 1 || options.n_outputs > kMaxContext)
    return fail(ErrorCode::invalid_argument, "{} outputs, want 1 to {}", options.n_outputs, kMaxContext);
  if (!options.embeddings && !engine.model().info().has_logits)
    return fail(ErrorCode::unsupported, "{}: an encoder ({}), which gives embeddings but no logits",
                engine.files().name(), engine.model().info().architecture);
  return options;
}

}  // namespace

// All but memory: what plan() measures and create() then allocates.
Result<std::unique_ptr<Session>> Session::prepare(const Engine& engine, const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session);
  session->model_ = &engine.model();
  TESSERA_ASSIGN(session->options_, checked_options(engine, options));
  TESSERA_TRY(session->plan_caches(engine));
  TESSERA_ASSIGN(session->adapters_, AdapterSet::create(engine, options.adapters, session->options_.n_sequences));
  TESSERA_TRY(session->create_backends(engine));
  return session;
}

Result<> Session::plan_caches(const Engine& engine) {
  const SessionOptions& o = options_;
  const ModelInfo& model = model_->info();
  const ModelPlacement& placement = engine.placement();
  const auto plan = [&](const std::vector<KvLayerShape>& layers, std::span<const int64_t> blocks) {
    return KvCache::plan(placement.cpu(), {.layers = layers,
                                           .type_k = o.type_k,
                                           .type_v = o.type_v,
                                           .n_ctx = o.n_ctx,
                                           .n_sequences = o.n_sequences,
                                           .n_ubatch = o.n_ubatch,
                                           .devices = placement.caches_of(blocks)});
  };
  const std::vector<int64_t> encoder_blocks = encoder_blocks_of(model);
  const bool has_decoder = !model.has_encoder() || !o.embeddings;
  if (model.has_encoder() && has_decoder) {
    TESSERA_ASSIGN(encoder_cache_, plan(model.encoder_layers, encoder_blocks));
  }
  TESSERA_ASSIGN(cache_,
                 has_decoder ? plan(model.kv_layers, model.kv_blocks) : plan(model.encoder_layers, encoder_blocks));
  if (model.recurrent_layers.empty()) return {};
  TESSERA_ASSIGN(states_,
                 RecurrentCache::plan(placement.cpu(), {.layers = model.recurrent_layers,
                                                        .n_sequences = o.n_sequences,
                                                        .n_checkpoints = o.n_checkpoints,
                                                        .devices = placement.caches_of(model.recurrent_blocks)}));
  return {};
}

Result<> Session::create_backends(const Engine& engine) {
  std::vector<Backend*> backends;
  for (const Device* device : engine.devices()) {
    TESSERA_ASSIGN(auto backend,
                   device->create_backend({.threads = options_.threads, .activations = options_.activations}));
    backends.push_back(backend.get());
    backends_.push_back(std::move(backend));
  }
  n_lanes_ = n_lanes_of(engine);
  ScheduleOptions schedule{.pin = {}, .watch = options_.watch.wants, .snapshot = {}};
  if (n_lanes_ > 1)  // the tables are those of the next micro-batch while one is computed
    schedule.snapshot = [cache = cache_.get()](const Tensor& tensor) {
      return std::ranges::any_of(cache->groups(), [&](const KvGroup& group) {
        return &tensor == &group.blocks() || &tensor == &group.valid();
      });
    };
  executor_ = std::make_unique<Executor>(std::move(backends), std::move(schedule), n_lanes_);
  return {};
}

// Where several devices have layers, each computes another micro-batch of a batch. Not where each is looked at.
size_t Session::n_lanes_of(const Engine& engine) const {
  if (options_.observer || options_.watch.wants) return 1;
  std::set<const Device*> devices;
  for (int64_t i = 0; i < model_->info().n_layers; ++i) devices.insert(&engine.placement().entry(i));
  return std::min(devices.size(), kMaxLanes);
}

std::string_view Session::warning() const {
  for (const auto& backend : backends_)
    if (!backend->warning().empty()) return backend->warning();
  return {};
}

Result<MemoryReport> Session::plan(const Engine& engine, const SessionOptions& options) {
  TESSERA_ASSIGN(const auto session, prepare(engine, options));
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->largest_graphs());
  TESSERA_ASSIGN(const std::vector<ComputeBytes> compute, session->executor_->measure(graphs));
  const auto output = checked_mul<uint64_t>(static_cast<uint64_t>(session->options_.n_outputs),
                                            static_cast<uint64_t>(session->row_width()) * sizeof(float));
  if (!output) return fail(ErrorCode::limit, "output rows: size overflows");
  using Kind = MemoryPart::Kind;
  MemoryReport report{engine.planned_memory()};
  for (const auto& [adapter, scale] : options.adapters) report.add(adapter->planned_memory());
  report.add(memory_parts(Kind::cache, session->cache_->planned_memory()));
  if (session->has_encoder()) report.add(memory_parts(Kind::cache, session->encoder_cache_->planned_memory()));
  if (session->states_ != nullptr) report.add(memory_parts(Kind::cache, session->states_->planned_memory()));
  std::vector<TypeBytes> computed;
  for (const ComputeBytes& bytes : compute) computed.push_back({bytes.memory, bytes.total()});
  report.add(memory_parts(Kind::compute, computed));
  report.parts.push_back({Kind::output, "host", "host", static_cast<size_t>(*output)});
  return report;
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Engine> engine, const SessionOptions& options) {
  if (!engine->is_loaded()) return fail(ErrorCode::internal, "the engine is not loaded");
  for (const auto& [adapter, scale] : options.adapters)
    if (!adapter->is_loaded()) return fail(ErrorCode::internal, "{}: the adapter is not loaded", adapter->name());
  TESSERA_ASSIGN(auto session, prepare(*engine, options));
  session->engine_ = std::move(engine);
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->largest_graphs());
  TESSERA_TRY(session->cache_->allocate());
  if (session->has_encoder()) TESSERA_TRY(session->encoder_cache_->allocate());
  if (session->states_ != nullptr) TESSERA_TRY(session->states_->allocate());
  TESSERA_TRY(session->executor_->reserve(graphs));
  session->rows_.resize(static_cast<size_t>(session->options_.n_outputs * session->row_width()));
  return session;
}

MemoryReport Session::allocated_memory() const {
  using Kind = MemoryPart::Kind;
  MemoryReport report{engine_->allocated_memory()};
  for (const auto& [adapter, scale] : options_.adapters) report.add(adapter->allocated_memory());
  report.add(memory_parts(Kind::cache, cache_->allocated_memory()));
  if (has_encoder()) report.add(memory_parts(Kind::cache, encoder_cache_->allocated_memory()));
  if (states_ != nullptr) report.add(memory_parts(Kind::cache, states_->allocated_memory()));
  const std::vector<size_t> reserved = executor_->reserved_bytes();
  std::vector<TypeBytes> computed;
  for (size_t m = 0; m < reserved.size(); ++m) computed.push_back({executor_->memories()[m], reserved[m]});
  report.add(memory_parts(Kind::compute, computed));
  report.parts.push_back({Kind::output, "host", "host", rows_.size() * sizeof(float)});
  return report;
}

Result<Graph> Session::decode_graph(const StepShape& shape, Decoder& decoder) const {
  GraphBuilder b;
  if (options_.observer) b.observe_products();
  decoder.in = nn::add_batch_inputs(b, *cache_, shape.n_tokens, shape.n_outputs, states_.get());
  if (has_encoder()) nn::add_encoder_inputs(b, decoder.in, *encoder_cache_);
  decoder.adapters = adapters_.add_to(b, shape.adapters, decoder.in);
  decoder.rows =
      options_.embeddings ? model_->build_embeddings(b, decoder.in, *cache_) : model_->build(b, decoder.in, *cache_);
  return std::move(b).finish();
}

Result<Graph> Session::rank_graph(Ranker& ranker) const {
  GraphBuilder b;
  ranker.x = b.input("pooled", DType::f32, {model_->info().n_embd, 1});
  ranker.scores = model_->build_rank(b, ranker.x);
  return std::move(b).finish();
}

Result<StepCost> Session::step_cost(int64_t n_tokens, int64_t n_outputs) const {
  Decoder decoder;
  TESSERA_ASSIGN(const Graph graph, decode_graph({n_tokens, n_outputs, adapters_.initial()}, decoder));
  return tessera::step_cost(graph);
}

// Moves up to n_ubatch cells in the layers of a group, K rotated by "delta" positions.
Result<Graph> Session::move_graph(size_t group, bool rotate, Mover& mover) const {
  GraphBuilder b;
  mover.from = b.input("from", DType::i32, {options_.n_ubatch});
  mover.to = b.input("to", DType::i32, {options_.n_ubatch});
  std::vector<Value> ropes;
  if (rotate) {
    mover.delta = b.input("delta", DType::i32, {options_.n_ubatch});
    for (const nn::Rope& rope : model_->info().ropes)
      ropes.push_back(nn::rope_table(b, mover.delta, rope, options_.n_ctx, nn::RopeMagnitude::left_out));
  }
  const bool has_ropes = !model_->info().ropes.empty();
  for (size_t i = 0; i < cache_->config().layers.size(); ++i) {
    const auto il = static_cast<int64_t>(i);
    if (cache_->group_of(il) != group) continue;
    const Value k_cache = b.tensor(cache_->k(il));
    Value k = b.kv_load(k_cache, mover.from, KvSide::k);
    const int rope = has_ropes ? model_->info().kv_ropes[i] : nn::kNoRope;
    if (rotate && rope != nn::kNoRope) {
      const auto r = static_cast<size_t>(rope);
      k = b.rope(b.cast(k, DType::f32), ropes[r], model_->info().ropes[r].config.pairs);
    }
    b.kv_store(k_cache, k, mover.to, KvSide::k);
    if (!cache_->has_v(il)) continue;
    const Value v_cache = b.tensor(cache_->v(il));
    b.kv_store(v_cache, b.kv_load(v_cache, mover.from, KvSide::v), mover.to, KvSide::v);
  }
  return std::move(b).finish();
}

// The shapes that bound all others: a full micro-batch with as many outputs as can be asked for, with one less (where
// all are wanted, models need not take rows out) and with none, one token, each without adapters and with all; and the
// moves.
Result<std::vector<Graph>> Session::largest_graphs() const {
  const int64_t n_outputs = std::min(options_.n_outputs, options_.n_ubatch);
  std::vector<Graph> graphs;
  std::vector<AdapterSet::Mask> masks = {0};
  if (adapters_.all() != 0) masks.push_back(adapters_.all());
  for (const AdapterSet::Mask mask : masks) {
    if (!has_encoder()) break;
    Encoder encoder;
    TESSERA_ASSIGN(Graph graph, encode_graph({options_.n_ubatch, options_.n_ubatch, mask}, encoder));
    graphs.push_back(std::move(graph));
  }
  for (const AdapterSet::Mask mask : masks)
    for (const auto& [tokens, outputs] :
         {std::pair{options_.n_ubatch, n_outputs}, std::pair{options_.n_ubatch, n_outputs - 1},
          std::pair{options_.n_ubatch, int64_t{0}}, std::pair{int64_t{1}, int64_t{1}}}) {
      Decoder decoder;
      TESSERA_ASSIGN(Graph graph, decode_graph({tokens, outputs, mask}, decoder));
      if (mask != 0 && outputs > 0) TESSERA_TRY(adapters_.want_terms(graph));
      graphs.push_back(std::move(graph));
    }
  if (options_.embeddings && model_->info().n_scores > 0) {
    Ranker ranker;
    TESSERA_ASSIGN(Graph graph, rank_graph(ranker));
    graphs.push_back(std::move(graph));
  }
  for (size_t group = 0; group < cache_->groups().size(); ++group)
    for (const bool rotate : {false, true}) {
      if (!cache_->groups()[group].has_data()) continue;
      Mover mover;
      TESSERA_ASSIGN(Graph graph, move_graph(group, rotate, mover));
      graphs.push_back(std::move(graph));
    }
  return graphs;
}

// A graph of some adapters that does not fit what was reserved gives way to that of all, which fits; the bits are the
// same.
Result<Session::Decoder*> Session::prepared(const StepShape& shape, size_t n_lanes) {
  auto decoder = find_or_prepare(shape, n_lanes);
  if (decoder || shape.adapters == 0 || shape.adapters == adapters_.all()) return decoder;
  return find_or_prepare({shape.n_tokens, shape.n_outputs, adapters_.all()}, n_lanes);
}

Result<Session::Decoder*> Session::find_or_prepare(const StepShape& shape, size_t n_lanes) {
  Decoder& decoder = decoders_[shape];
  decoder.last_use = ++n_runs_;
  if (decoder.graph == nullptr || decoder.graph->n_pipeline_slots() < n_lanes) {
    auto graph = decode_graph(shape, decoder);
    auto made = graph ? executor_->prepare(std::move(*graph), n_lanes)
                      : Result<std::unique_ptr<PreparedGraph>>(forward_error(graph));
    if (!made) {
      decoders_.erase(shape);
      return forward_error(made);
    }
    decoder.graph = std::move(*made);
  }
  if (decoders_.size() > kMaxDecoders)
    decoders_.erase(std::ranges::min_element(decoders_, {}, [](const auto& entry) { return entry.second.last_use; }));
  return &decoder;
}

Result<> Session::decode(const Batch& batch, const CancelToken* cancel) {
  n_outputs_ = 0;
  if (batch.n_outputs() > options_.n_outputs)
    return fail(ErrorCode::invalid_argument, "{} wanted for {} tokens, the session has room for {}",
                options_.embeddings ? "embeddings" : "logits", batch.n_outputs(), options_.n_outputs);
  TESSERA_TRY(want_tokens(batch.tokens()));
  TESSERA_TRY(cache_->want_positions(batch.tokens()));  // before anything is computed
  TESSERA_TRY(want_prompts(batch.tokens()));
  TESSERA_ASSIGN(const std::vector<Range> parts, parts_of(batch));
  if (auto done = decode_parts(batch.tokens(), parts, cancel); !done) {
    for (size_t slot = 0; slot < n_lanes_; ++slot) std::ignore = executor_->wait(slot);
    TESSERA_TRY(cache_->rollback());
    if (states_ != nullptr) states_->discard();
    return done;
  }
  TESSERA_TRY(cache_->commit());
  if (states_ != nullptr) states_->commit();
  n_outputs_ = batch.n_outputs();
  return {};
}

Result<> Session::want_tokens(std::span<const BatchToken> tokens) const {
  for (const BatchToken& t : tokens)
    if (t.token < 0 || t.token >= model_->info().n_vocab)
      return fail(ErrorCode::invalid_argument, "token {} at position {}, want 0 to {}", t.token, t.position,
                  model_->info().n_vocab - 1);
  return {};
}

// The micro-batches of a batch. A model that is not causal has whole sequences in each.
Result<std::vector<Range>> Session::parts_of(const Batch& batch) const {
  if (options_.embeddings ? model_->info().embeds_causally() : model_->info().is_causal)
    return split(batch, options_.n_ubatch);
  const std::span<const BatchToken> tokens = batch.tokens();
  std::vector<bool> is_seen(static_cast<size_t>(options_.n_sequences));
  std::vector<Range> parts;
  for (int64_t begin = 0, end = 0; begin < batch.size(); begin = end) {
    const int32_t sequence = tokens[static_cast<size_t>(begin)].sequence;
    while (end < batch.size() && tokens[static_cast<size_t>(end)].sequence == sequence) ++end;
    if (is_seen[static_cast<size_t>(sequence)] || cache_->max_position(sequence))
      return fail(ErrorCode::invalid_argument, "sequence {} comes in pieces: this model computes a sequence at once",
                  sequence);
    is_seen[static_cast<size_t>(sequence)] = true;
    if (end - begin > options_.n_ubatch)
      return fail(ErrorCode::invalid_argument,
                  "a sequence of {} tokens, micro-batch of {} (-ub): this model computes a sequence at once",
                  end - begin, options_.n_ubatch);
    if (!parts.empty() && end - parts.back().begin <= options_.n_ubatch)
      parts.back().end = end;
    else
      parts.push_back({begin, end});
  }
  return parts;
}

// Each micro-batch is begun when the one before on its lane has ended.
Result<> Session::decode_parts(std::span<const BatchToken> tokens, std::span<const Range> parts,
                               const CancelToken* cancel) {
  const size_t n_lanes = step_observer_ ? 1 : std::min(n_lanes_, parts.size());
  std::vector<Part> on_lanes(n_lanes);
  int64_t n_outputs = 0;
  for (size_t i = 0; i < parts.size() + n_lanes; ++i) {
    const size_t lane = i % n_lanes;
    Part& part = on_lanes[lane];
    if (part.decoder != nullptr) TESSERA_TRY(end_part(part, lane));
    part = {};
    if (i >= parts.size()) continue;
    const auto of_part = tokens.subspan(static_cast<size_t>(parts[i].begin), static_cast<size_t>(parts[i].size()));
    TESSERA_ASSIGN(part, begin_part(of_part, lane, n_lanes, cancel));
    part.first_output = n_outputs;
    n_outputs += part.n_outputs;
  }
  return {};
}

Result<Session::Part> Session::begin_part(std::span<const BatchToken> tokens, size_t lane, size_t n_lanes,
                                          const CancelToken* cancel) {
  Part part;
  part.n_outputs = std::ranges::count(tokens, true, &BatchToken::wants_logits);
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  TESSERA_ASSIGN(part.decoder, prepared({n_tokens, part.n_outputs, adapters_.used_by(tokens)}, n_lanes));
  const Decoder& decoder = *part.decoder;
  PreparedGraph& graph = *decoder.graph;
  TESSERA_TRY(set_tokens(graph, decoder.in, decoder.adapters, tokens, lane));
  if (part.n_outputs > 0) {
    ints_.clear();
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].wants_logits) ints_.push_back(static_cast<int32_t>(i));
    TESSERA_TRY(set_input(graph, decoder.in.outputs, ints_, lane));
  }
  TESSERA_TRY(cache_->reserve(tokens, cells_));
  TESSERA_TRY(set_cells(graph, decoder.in, lane));
  if (states_ != nullptr) {
    TESSERA_TRY(states_->reserve(tokens, runs_));
    TESSERA_TRY(set_input(graph, decoder.in.runs, runs_, lane));
  }
  if (n_lanes > 1) {
    TESSERA_TRY(executor_->start(graph, {.pipeline_slot = lane, .cancel = cancel}));
  } else {
    TESSERA_TRY(run_step(graph, n_tokens, part.n_outputs, cancel));
  }
  return part;
}

Result<> Session::end_part(const Part& part, size_t lane) {
  TESSERA_TRY(executor_->wait(lane));
  const PreparedGraph& graph = *part.decoder->graph;
  if (options_.observer) TESSERA_TRY(observe(graph));
  if (part.n_outputs == 0) return {};
  const int64_t width = row_width();
  const Tensor& place = graph.place(part.decoder->rows.id(), lane);
  const std::span<float> rows(rows_.data() + part.first_output * width, static_cast<size_t>(part.n_outputs * width));
  return place.buffer->get(place, 0, std::as_writable_bytes(rows));
}

Result<> Session::set_tokens(const PreparedGraph& graph, const nn::BatchInputs& in, const AdapterSet::Inputs& adapters,
                             std::span<const BatchToken> tokens, size_t lane) {
  const auto set = [&](Value input, auto member) {
    ints_.clear();
    for (const BatchToken& t : tokens) ints_.push_back(t.*member);
    return set_input(graph, input, ints_, lane);
  };
  TESSERA_TRY(set(in.tokens, &BatchToken::token));
  TESSERA_TRY(set(in.positions, &BatchToken::position));
  TESSERA_TRY(set(in.sequences, &BatchToken::sequence));
  return adapters_.fill(graph, adapters, tokens, lane);
}

Result<> Session::set_cells(const PreparedGraph& graph, const nn::BatchInputs& in, size_t lane) {
  for (size_t group = 0; group < cells_.size(); ++group)
    if (const Value cells = in.groups[group].cells; cells.present())
      TESSERA_TRY(set_input(graph, cells, cells_[group], lane));
  return {};
}

Result<> Session::observe(const PreparedGraph& prepared) {
  const Graph& graph = prepared.graph();
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op != Op::sum_squares || !node.is_output) continue;
    sums_.resize(static_cast<size_t>(node.spec.shape()[0]));
    const Tensor& place = prepared.place(id);
    TESSERA_TRY(place.buffer->get(place, 0, std::as_writable_bytes(std::span(sums_))));
    const std::string_view weight = std::string_view(node.name).substr(0, node.name.size() - kObservedSuffix.size());
    options_.observer(weight, sums_, graph[node.sources[0]].spec.shape().n_rows());
  }
  return {};
}

int64_t Session::row_width() const { return options_.embeddings ? model_->info().n_embd : model_->info().n_vocab; }

std::span<const float> Session::row(int64_t i) const {
  return {rows_.data() + i * row_width(), static_cast<size_t>(row_width())};
}

Result<std::vector<float>> Session::rank(std::span<const float> embedding, const CancelToken* cancel) {
  if (!options_.embeddings || model_->info().n_scores == 0)
    return fail(ErrorCode::unsupported, "{}: no rank head", engine_->files().name());
  if (ranker_.graph == nullptr) {
    TESSERA_ASSIGN(Graph graph, rank_graph(ranker_));
    TESSERA_ASSIGN(ranker_.graph, executor_->prepare(std::move(graph)));
  }
  const Tensor& x = ranker_.graph->place(ranker_.x.id());
  TESSERA_TRY(x.buffer->set(x, 0, std::as_bytes(embedding)));
  TESSERA_TRY(executor_->run(*ranker_.graph, {.cancel = cancel}));
  std::vector<float> scores(static_cast<size_t>(model_->info().n_scores));
  const Tensor& place = ranker_.graph->place(ranker_.scores.id());
  TESSERA_TRY(place.buffer->get(place, 0, std::as_writable_bytes(std::span(scores))));
  return scores;
}

// The recurrent states say first whether they can follow; then they do what the cache has done.

Result<> Session::remove(int32_t sequence, int32_t begin, int32_t end) {
  if (states_ != nullptr) TESSERA_TRY(states_->want_removable(sequence, begin, end));
  TESSERA_TRY(cache_->remove(sequence, begin, end));
  return states_ == nullptr ? Result<>{} : states_->remove(sequence, begin, end);
}

Result<> Session::keep(int32_t sequence) {
  TESSERA_TRY(cache_->keep(sequence));
  if (has_encoder()) TESSERA_TRY(encoder_cache_->keep(sequence));
  for (int32_t other = 0; states_ != nullptr && other < options_.n_sequences; ++other)
    if (other != sequence) TESSERA_TRY(states_->remove(other, 0, std::numeric_limits<int32_t>::max()));
  return {};
}

Result<> Session::clear() {
  TESSERA_TRY(cache_->clear());
  if (has_encoder()) TESSERA_TRY(encoder_cache_->clear());
  for (int32_t sequence = 0; states_ != nullptr && sequence < options_.n_sequences; ++sequence)
    TESSERA_TRY(states_->remove(sequence, 0, std::numeric_limits<int32_t>::max()));
  return {};
}

Result<> Session::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  if (states_ != nullptr) TESSERA_TRY(states_->want_copyable(from, to, begin, end));
  TESSERA_ASSIGN(const std::vector<CellMoves> moves, cache_->copy(from, to, begin, end));
  TESSERA_TRY(move(moves));
  if (has_encoder()) TESSERA_TRY(copy_prompt(from, to));
  return states_ == nullptr ? Result<>{} : states_->copy(from, to, begin, end);
}

Result<> Session::want_shiftable() const {
  if (!model_->weights().has("position_embd.weight")) return {};
  return fail(ErrorCode::unsupported, "{}: tokens cannot be shifted: they are stored with learned positions",
              model_->info().architecture);
}

Result<> Session::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_TRY(want_shiftable());
  if (states_ != nullptr) TESSERA_TRY(states_->want_shiftable(sequence, begin, end));
  TESSERA_ASSIGN(const std::vector<CellMoves> moves, cache_->shift(sequence, begin, end, delta));
  TESSERA_TRY(move(moves));
  return states_ == nullptr ? Result<>{} : states_->shift(sequence, begin, end, delta);
}

std::optional<int32_t> Session::min_position(int32_t sequence) const {
  const auto lowest = cache_->min_position(sequence);
  const auto last = states_ == nullptr ? std::nullopt : states_->last_position(sequence);
  return last ? last : lowest;  // the last position is the highest of all
}

std::optional<int32_t> Session::lowest_rollback(int32_t sequence) const {
  const auto last = states_ == nullptr ? std::nullopt : states_->last_position(sequence);
  return last ? *last + 1 : cache_->lowest_rollback(sequence);
}

Result<> Session::checkpoint(int32_t sequence) {
  return states_ == nullptr ? Result<>{} : states_->checkpoint(sequence);
}

Result<> Session::drop_checkpoints(int32_t sequence) {
  return states_ == nullptr ? Result<>{} : states_->drop_checkpoints(sequence);
}

Result<> Session::move(std::span<const CellMoves> moves) {
  for (size_t group = 0; group < moves.size(); ++group)
    if (!moves[group].from.empty() && cache_->groups()[group].has_data()) TESSERA_TRY(move_group(group, moves[group]));
  return {};
}

Result<> Session::move_group(size_t group, const CellMoves& moves) {
  Mover& mover = movers_[{group, moves.delta != 0}];
  if (mover.graph == nullptr) {
    TESSERA_ASSIGN(Graph built, move_graph(group, moves.delta != 0, mover));
    TESSERA_ASSIGN(mover.graph, executor_->prepare(std::move(built)));
  }
  const auto n = static_cast<size_t>(options_.n_ubatch);
  for (size_t begin = 0; begin < moves.from.size(); begin += n) {
    const size_t count = std::min(n, moves.from.size() - begin);
    // The last chunk is filled up with reads of cell 0 that are written nowhere.
    const auto set = [&](Value input, const std::vector<int32_t>& cells, int32_t filler) {
      ints_.assign(n, filler);
      std::copy_n(cells.begin() + static_cast<ptrdiff_t>(begin), count, ints_.begin());
      return set_input(*mover.graph, input, ints_);
    };
    TESSERA_TRY(set(mover.from, moves.from, 0));
    TESSERA_TRY(set(mover.to, moves.to, -1));
    if (moves.delta != 0) {
      ints_.assign(n, moves.delta);
      TESSERA_TRY(set_input(*mover.graph, mover.delta, ints_));
    }
    TESSERA_TRY(executor_->run(*mover.graph));
  }
  return {};
}

}  // namespace tessera
