#include "tessera/engine/session.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/nn/linear.h"

namespace tessera {

namespace {

constexpr int64_t kMaxUbatch = 1 << 16;
// Prepared graphs that a session keeps: shapes that recur (prefill, its last part, decode) stay, strays go.
constexpr size_t kMaxDecoders = 16;

NodeId find_node(const Graph& graph, std::string_view name) {
  for (NodeId id = 0; id < graph.size(); ++id)
    if (graph[id].name == name) return id;
  return kNoNode;
}

Result<SessionOptions> checked_options(const Engine& engine, SessionOptions options) {
  if (options.n_ctx == 0) options.n_ctx = engine.model().info().n_ctx_train;
  if (options.n_ubatch < 1 || options.n_ubatch > kMaxUbatch)
    return fail(ErrorCode::invalid_argument, "micro-batch of {} tokens, want 1 to {}", options.n_ubatch, kMaxUbatch);
  options.n_ubatch = std::min(options.n_ubatch, std::max<int64_t>(options.n_ctx, 1));
  if (options.n_outputs < 1 || options.n_outputs > kMaxContext)
    return fail(ErrorCode::invalid_argument, "{} outputs, want 1 to {}", options.n_outputs, kMaxContext);
  return options;
}

}  // namespace

// All but memory: what plan() measures and create() then allocates.
Result<std::unique_ptr<Session>> Session::prepare(const Engine& engine, const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session);
  session->model_ = &engine.model();
  TESSERA_ASSIGN(session->options_, checked_options(engine, options));
  const SessionOptions& o = session->options_;
  TESSERA_ASSIGN(session->cache_, KvCache::plan(engine.device(), {.layers = engine.model().info().kv_layers,
                                                                  .type_k = o.type_k,
                                                                  .type_v = o.type_v,
                                                                  .n_ctx = o.n_ctx,
                                                                  .n_sequences = o.n_sequences}));
  TESSERA_ASSIGN(session->backend_,
                 engine.device().create_backend({.threads = o.threads, .activations = o.activations}));
  session->executor_ = std::make_unique<Executor>(*session->backend_);
  return session;
}

Result<MemoryReport> Session::plan(const Engine& engine, const SessionOptions& options) {
  TESSERA_ASSIGN(const auto session, prepare(engine, options));
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->largest_graphs());
  TESSERA_ASSIGN(const ComputeBytes compute, session->executor_->measure(graphs));
  const auto output = checked_mul<uint64_t>(static_cast<uint64_t>(session->options_.n_outputs),
                                            static_cast<uint64_t>(engine.model().info().n_vocab) * sizeof(float));
  if (!output) return fail(ErrorCode::limit, "output rows: size overflows");
  const std::string device(engine.device().name()), buffer(engine.device().buffer_type().name());
  MemoryReport report{engine.planned_memory()};
  report.parts.push_back({MemoryPart::Kind::cache, device, buffer, session->cache_->bytes()});
  report.parts.push_back({MemoryPart::Kind::compute, device, buffer, compute.total()});
  report.parts.push_back({MemoryPart::Kind::output, "host", "host", static_cast<size_t>(*output)});
  return report;
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Engine> engine, const SessionOptions& options) {
  if (!engine->is_loaded()) return fail(ErrorCode::internal, "the engine is not loaded");
  TESSERA_ASSIGN(auto session, prepare(*engine, options));
  session->engine_ = std::move(engine);
  TESSERA_ASSIGN(const std::vector<Graph> graphs, session->largest_graphs());
  TESSERA_TRY(session->cache_->allocate());
  TESSERA_TRY(session->executor_->reserve(graphs));
  session->logits_.resize(static_cast<size_t>(session->options_.n_outputs * session->model_->info().n_vocab));
  return session;
}

MemoryReport Session::allocated_memory() const {
  const std::string device(engine_->device().name()), buffer(engine_->device().buffer_type().name());
  MemoryReport report{engine_->allocated_memory()};
  report.parts.push_back({MemoryPart::Kind::cache, device, buffer, cache_->allocated_bytes()});
  report.parts.push_back({MemoryPart::Kind::compute, device, buffer, executor_->reserved_bytes()});
  report.parts.push_back({MemoryPart::Kind::output, "host", "host", logits_.size() * sizeof(float)});
  return report;
}

Result<Graph> Session::decode_graph(int64_t n_tokens, int64_t n_outputs) const {
  GraphBuilder b;
  if (options_.observer) b.observe_products();
  const nn::BatchInputs in = nn::add_batch_inputs(b, *cache_, n_tokens, n_outputs);
  model_->build(b, in, *cache_);
  return std::move(b).finish();
}

Result<StepCost> Session::step_cost(int64_t n_tokens, int64_t n_outputs) const {
  TESSERA_ASSIGN(const Graph graph, decode_graph(n_tokens, n_outputs));
  return tessera::step_cost(graph);
}

// Moves up to n_ubatch cells in all layers, K rotated by "delta" positions.
Result<Graph> Session::move_graph(bool rotate) const {
  GraphBuilder b;
  const Value from = b.input("from", DType::i32, {options_.n_ubatch});
  const Value to = b.input("to", DType::i32, {options_.n_ubatch});
  Value rope;
  if (rotate) {
    const Value delta = b.input("delta", DType::i32, {options_.n_ubatch});
    const Tensor* factors = model_->info().rope_factors;
    RopeTableParams params = nn::rope_table_params(model_->info().rope);
    params.magnitude = 1.0f;  // K carries it already
    rope = b.rope_table(delta, factors == nullptr ? Value() : nn::vector_f32(b, *factors), params);
  }
  for (size_t il = 0; il < model_->info().kv_layers.size(); ++il) {
    const Value k_cache = b.tensor(cache_->k(static_cast<int64_t>(il)));
    const Value v_cache = b.tensor(cache_->v(static_cast<int64_t>(il)));
    Value k = b.kv_load(k_cache, from, KvSide::k);
    if (rotate) k = b.rope(b.cast(k, DType::f32), rope, model_->info().rope.pairs);
    const Value v = b.kv_load(v_cache, from, KvSide::v);
    b.kv_store(k_cache, k, to, KvSide::k);
    b.kv_store(v_cache, v, to, KvSide::v);
  }
  return std::move(b).finish();
}

// The shapes that bound all others: a full micro-batch with as many outputs as can be asked for and with none, one
// token, and the moves.
Result<std::vector<Graph>> Session::largest_graphs() const {
  const int64_t n_outputs = std::min(options_.n_outputs, options_.n_ubatch);
  std::vector<Graph> graphs;
  for (const auto& [tokens, outputs] : {std::pair{options_.n_ubatch, n_outputs},
                                        std::pair{options_.n_ubatch, int64_t{0}}, std::pair{int64_t{1}, int64_t{1}}}) {
    TESSERA_ASSIGN(Graph graph, decode_graph(tokens, outputs));
    graphs.push_back(std::move(graph));
  }
  for (const bool rotate : {false, true}) {
    TESSERA_ASSIGN(Graph graph, move_graph(rotate));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

Result<PreparedGraph*> Session::prepared(int64_t n_tokens, int64_t n_outputs) {
  Decoder& decoder = decoders_[{n_tokens, n_outputs}];
  decoder.last_use = ++n_runs_;
  if (decoder.graph == nullptr) {
    auto graph = decode_graph(n_tokens, n_outputs);
    auto made =
        graph ? executor_->prepare(std::move(*graph)) : Result<std::unique_ptr<PreparedGraph>>(forward_error(graph));
    if (!made) {
      decoders_.erase({n_tokens, n_outputs});
      return forward_error(made);
    }
    decoder.graph = std::move(*made);
  }
  if (decoders_.size() > kMaxDecoders)
    decoders_.erase(std::ranges::min_element(decoders_, {}, [](const auto& entry) { return entry.second.last_use; }));
  return decoder.graph.get();
}

Result<> Session::set_input(const PreparedGraph& graph, std::string_view name, std::span<const int32_t> values) const {
  const NodeId id = find_node(graph.graph(), name);
  if (id == kNoNode) return fail(ErrorCode::internal, "the graph has no input {}", name);
  return graph.place(id).buffer->set(graph.place(id), 0, std::as_bytes(values));
}

Result<> Session::decode(const Batch& batch, const CancelToken* cancel) {
  n_outputs_ = 0;
  if (batch.n_outputs() > options_.n_outputs)
    return fail(ErrorCode::invalid_argument, "logits wanted for {} tokens, the session has room for {}",
                batch.n_outputs(), options_.n_outputs);
  for (const BatchToken& t : batch.tokens())
    if (t.token < 0 || t.token >= model_->info().n_vocab)
      return fail(ErrorCode::invalid_argument, "token {} at position {}, want 0 to {}", t.token, t.position,
                  model_->info().n_vocab - 1);
  int64_t n_outputs = 0;
  for (const Range& part : split(batch, options_.n_ubatch)) {
    const auto tokens = batch.tokens().subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.size()));
    if (auto done = decode_part(tokens, n_outputs, cancel); !done) {
      // The parts before this one are in the cache; this one is not.
      for (const BatchToken& t : batch.tokens().first(static_cast<size_t>(part.begin)))
        TESSERA_TRY(cache_->remove(t.sequence, t.position, t.position + 1));
      return done;
    }
    n_outputs += std::ranges::count(tokens, true, &BatchToken::wants_logits);
  }
  n_outputs_ = n_outputs;
  return {};
}

Result<> Session::decode_part(std::span<const BatchToken> tokens, int64_t first_output, const CancelToken* cancel) {
  const auto n_outputs = static_cast<int64_t>(std::ranges::count(tokens, true, &BatchToken::wants_logits));
  TESSERA_ASSIGN(PreparedGraph * graph, prepared(static_cast<int64_t>(tokens.size()), n_outputs));
  const auto set = [&](std::string_view name, auto member) {
    ints_.clear();
    for (const BatchToken& t : tokens) ints_.push_back(t.*member);
    return set_input(*graph, name, ints_);
  };
  TESSERA_TRY(set("tokens", &BatchToken::token));
  TESSERA_TRY(set("positions", &BatchToken::position));
  TESSERA_TRY(set("sequences", &BatchToken::sequence));
  if (n_outputs > 0) {
    ints_.clear();
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].wants_logits) ints_.push_back(static_cast<int32_t>(i));
    TESSERA_TRY(set_input(*graph, "outputs", ints_));
  }
  TESSERA_TRY(cache_->reserve(tokens, cells_));
  auto done = set_input(*graph, "cells", cells_);
  if (done) done = executor_->run(*graph, cancel);
  if (done && options_.observer) done = observe(*graph);
  if (!done) {
    for (const BatchToken& t : tokens) TESSERA_TRY(cache_->remove(t.sequence, t.position, t.position + 1));
    return done;
  }
  if (n_outputs == 0) return {};
  const int64_t n_vocab = model_->info().n_vocab;
  const Tensor& place = graph->place(find_node(graph->graph(), "logits"));
  const std::span<float> rows(logits_.data() + first_output * n_vocab, static_cast<size_t>(n_outputs * n_vocab));
  return place.buffer->get(place, 0, std::as_writable_bytes(rows));
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

std::span<const float> Session::logits(int64_t i) const {
  const int64_t n_vocab = model_->info().n_vocab;
  return {logits_.data() + i * n_vocab, static_cast<size_t>(n_vocab)};
}

Result<> Session::copy(int32_t from, int32_t to, int32_t begin, int32_t end) {
  TESSERA_ASSIGN(const CellMoves moves, cache_->copy(from, to, begin, end));
  return move(moves);
}

Result<> Session::shift(int32_t sequence, int32_t begin, int32_t end, int32_t delta) {
  TESSERA_ASSIGN(const CellMoves moves, cache_->shift(sequence, begin, end, delta));
  return move(moves);
}

Result<> Session::move(const CellMoves& moves) {
  if (moves.from.empty()) return {};
  std::unique_ptr<PreparedGraph>& graph = moves.delta == 0 ? copy_graph_ : rotate_graph_;
  if (graph == nullptr) {
    TESSERA_ASSIGN(Graph built, move_graph(moves.delta != 0));
    TESSERA_ASSIGN(graph, executor_->prepare(std::move(built)));
  }
  const auto n = static_cast<size_t>(options_.n_ubatch);
  for (size_t begin = 0; begin < moves.from.size(); begin += n) {
    const size_t count = std::min(n, moves.from.size() - begin);
    // The last chunk is filled up with reads of cell 0 that are written nowhere.
    const auto set = [&](std::string_view name, const std::vector<int32_t>& cells, int32_t filler) {
      ints_.assign(n, filler);
      std::copy_n(cells.begin() + static_cast<ptrdiff_t>(begin), count, ints_.begin());
      return set_input(*graph, name, ints_);
    };
    TESSERA_TRY(set("from", moves.from, 0));
    TESSERA_TRY(set("to", moves.to, -1));
    if (moves.delta != 0) {
      ints_.assign(n, moves.delta);
      TESSERA_TRY(set_input(*graph, "delta", ints_));
    }
    TESSERA_TRY(executor_->run(*graph, nullptr));
  }
  return {};
}

}  // namespace tessera
