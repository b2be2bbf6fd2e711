#include "tessera/engine/step_graphs.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "tessera/base/index.h"

namespace tessera {

namespace {

// Shapes that recur stay prepared; rare ones are dropped. Steps of a server have many: any number of sequences, with
// and without a part of a prompt. With 16, a server with 8 slots prepared a graph for every 20th step.
constexpr size_t kMaxDecoders = 64;
constexpr size_t kMaxPipelineSlots = 4;

}  // namespace

StepGraphs::StepGraphs(const Model& model, const SessionOptions& options, const SequenceMemory& memory,
                       AdapterSet& adapters)
    : model_(model), options_(options), memory_(memory), adapters_(adapters) {}

Result<std::unique_ptr<StepGraphs>> StepGraphs::create(const Engine& engine, const Model& model,
                                                       const SessionOptions& options, const SequenceMemory& memory,
                                                       AdapterSet& adapters, Neighbour beside) {
  std::unique_ptr<StepGraphs> graphs(new StepGraphs(model, options, memory, adapters));
  if (model.info().follower && model.info().follower->borrows_cache) {
    if (beside.memory == nullptr)
      return fail(ErrorCode::invalid_argument, "{}: there is no session whose K and V it could attend to",
                  model.info().architecture);
    graphs->borrowed_ = &beside.memory->kv();
  }
  TESSERA_TRY(graphs->create_executor(engine, beside.graphs));
  return graphs;
}

// A pipeline runs steps on threads of its own, also while another session runs.
std::shared_ptr<Backend> StepGraphs::find_backend(const Device& device) const {
  if (n_pipeline_slots_ > 1) return nullptr;
  const auto found = std::ranges::find(backends_, &device, [](const auto& backend) { return &backend->device(); });
  return found == backends_.end() ? nullptr : *found;
}

Result<> StepGraphs::create_executor(const Engine& engine, const StepGraphs* beside) {
  std::vector<Backend*> backends;
  for (const Device* device : engine.devices()) {
    std::shared_ptr<Backend> backend = beside == nullptr ? nullptr : beside->find_backend(*device);
    if (backend == nullptr) {
      TESSERA_ASSIGN(backend,
                     device->create_backend({.threads = options_.threads, .activations = options_.activations}));
    }
    backends.push_back(backend.get());
    backends_.push_back(std::move(backend));
  }
  n_pipeline_slots_ = pipeline_depth(engine);
  ScheduleOptions schedule{.pin = {}, .watch = options_.watch.wants, .snapshot = {}};
  // The next micro-batch changes the tables of the cache while this one is computed.
  if (n_pipeline_slots_ > 1)
    schedule.snapshot = [cache = &memory_.kv()](const Tensor& tensor) {
      return std::ranges::any_of(cache->groups(), [&](const KvGroup& group) {
        return &tensor == &group.blocks() || &tensor == &group.valid();
      });
    };
  executor_ = std::make_unique<Executor>(std::move(backends), std::move(schedule), n_pipeline_slots_);
  cells_ = std::make_unique<CellGraphs>(model_.info(), *executor_);
  return {};
}

// One micro-batch per device that has layers; 1 while values are observed.
size_t StepGraphs::pipeline_depth(const Engine& engine) const {
  if (options_.observer || options_.watch.wants) return 1;
  std::set<const Device*> devices;
  for (int64_t i = 0; i < model_.info().n_layers; ++i) devices.insert(&engine.placement().entry(i));
  return std::min(devices.size(), kMaxPipelineSlots);
}

std::string_view StepGraphs::warning() const {
  for (const auto& backend : backends_)
    if (!backend->warning().empty()) return backend->warning();
  return {};
}

// --- building

Result<Graph> StepGraphs::build_decoder(PreparedStep& step) const {
  GraphBuilder b;
  if (options_.observer) b.observe_products();
  step.in = borrowed_ == nullptr ? nn::add_batch_inputs(b, memory_, step.shape.n_tokens, step.shape.n_outputs)
                                 : nn::add_batch_inputs(b, *borrowed_, step.shape.n_tokens, step.shape.n_outputs);
  if (borrowed_ != nullptr)
    for (nn::CacheInputs& group : step.in.groups) group.cells = group.entry_cells = {};  // nothing is stored
  const KvCache& cache = borrowed_ == nullptr ? memory_.kv() : *borrowed_;
  step.in.int16_attention = options_.attention == AttentionPrecision::int16;
  step.adapters = adapters_.add_to(b, step.shape.adapters, step.in);
  if (options_.part == SessionPart::head)
    step.in.hidden = b.input("hidden", DType::f32, {model_.info().hidden_width(), step.shape.n_tokens});
  if (options_.embeddings) {
    step.rows = model_.build_embeddings(b, step.in, cache);
  } else if (options_.part != SessionPart::model) {
    const HiddenRows rows = options_.follower == nullptr
                                ? model_.build_hidden(b, step.in, cache)
                                : model_.build_followed(b, step.in, cache, options_.follower->model());
    step.rows = rows.logits;
    step.hidden = rows.hidden;
  } else {
    step.rows = model_.build(b, step.in, cache);
  }
  return std::move(b).finish();
}

Result<Graph> StepGraphs::decode_graph(const StepShape& shape) const {
  PreparedStep step{.shape = shape};
  return build_decoder(step);
}

Result<Graph> StepGraphs::build_encoder(PreparedStep& step) const {
  GraphBuilder b;
  step.in = nn::add_batch_inputs(b, memory_.prompts(), step.shape.n_tokens, step.shape.n_outputs);
  step.in.int16_attention = options_.attention == AttentionPrecision::int16;
  step.adapters = adapters_.add_to(b, step.shape.adapters, step.in);
  model_.build_encoder(b, step.in, memory_.prompts());
  return std::move(b).finish();
}

Result<Graph> StepGraphs::build_ranker(Ranker& ranker) const {
  GraphBuilder b;
  ranker.x = b.input("pooled", DType::f32, {model_.info().n_embd, 1});
  ranker.scores = model_.build_rank(b, ranker.x);
  return std::move(b).finish();
}

// These shapes bound all others: a full micro-batch with the most outputs, with one output less (models skip the
// selection of rows if all tokens have outputs) and without outputs, and one token. Each is built without adapters and
// with all.
Result<std::vector<Graph>> StepGraphs::largest_graphs() const {
  const int64_t n_ubatch = options_.n_ubatch, n_outputs = std::min(options_.n_outputs, n_ubatch);
  std::vector<Graph> graphs;
  std::vector<AdapterSet::Mask> masks = {0};
  if (adapters_.all() != 0) masks.push_back(adapters_.all());
  for (const AdapterSet::Mask mask : masks) {
    if (!memory_.has_encoder()) break;
    PreparedStep step{.shape = {n_ubatch, n_ubatch, mask}};
    TESSERA_ASSIGN(Graph graph, build_encoder(step));
    graphs.push_back(std::move(graph));
  }
  for (const AdapterSet::Mask mask : masks)
    for (const StepShape& shape : {StepShape{n_ubatch, n_outputs, mask}, StepShape{n_ubatch, n_outputs - 1, mask},
                                   StepShape{n_ubatch, 0, mask}, StepShape{1, 1, mask}}) {
      TESSERA_ASSIGN(Graph graph, decode_graph(shape));
      if (mask != 0 && shape.n_outputs > 0) TESSERA_TRY(adapters_.require_terms(graph));
      graphs.push_back(std::move(graph));
    }
  if (options_.embeddings && model_.info().has_pooled_head()) {
    Ranker ranker;
    TESSERA_ASSIGN(Graph graph, build_ranker(ranker));
    graphs.push_back(std::move(graph));
  }
  TESSERA_ASSIGN(std::vector<Graph> moves, cells_->largest_graphs(memory_.kv()));
  std::ranges::move(moves, std::back_inserter(graphs));
  return graphs;
}

// --- prepared steps

// The graph of some adapters can exceed the reserved memory. The graph of all adapters fits, and computes the same
// bits.
Result<const PreparedStep*> StepGraphs::decode_step(const StepShape& shape, size_t n_pipeline_slots) {
  auto step = find_or_prepare(shape, n_pipeline_slots);
  if (step || shape.adapters == 0 || shape.adapters == adapters_.all()) return step;
  return find_or_prepare({shape.n_tokens, shape.n_outputs, adapters_.all()}, n_pipeline_slots);
}

Result<const PreparedStep*> StepGraphs::find_or_prepare(const StepShape& shape, size_t n_pipeline_slots) {
  KeptStep& kept = decoders_[shape];
  PreparedStep& step = kept.step;
  kept.last_use = ++n_uses_;
  if (step.graph == nullptr || step.graph->n_pipeline_slots() < n_pipeline_slots) {
    step.shape = shape;
    auto graph = build_decoder(step);
    auto prepared = graph ? executor_->prepare(std::move(*graph), n_pipeline_slots)
                          : Result<std::unique_ptr<PreparedGraph>>(forward_error(graph));
    if (!prepared) {
      decoders_.erase(shape);
      return forward_error(prepared);
    }
    step.graph = std::move(*prepared);
  }
  if (decoders_.size() > kMaxDecoders)
    decoders_.erase(std::ranges::min_element(decoders_, {}, [](const auto& entry) { return entry.second.last_use; }));
  return &step;
}

Result<const PreparedStep*> StepGraphs::encode_step(const StepShape& shape) {
  if (encoder_.graph == nullptr || encoder_.shape != shape) {
    encoder_ = {.shape = shape};
    TESSERA_ASSIGN(Graph graph, build_encoder(encoder_));
    TESSERA_ASSIGN(encoder_.graph, executor_->prepare(std::move(graph)));
  }
  return &encoder_;
}

Result<> StepGraphs::set_inputs(const PreparedStep& step, std::span<const BatchToken> tokens,
                                const Reservation& reservation, size_t pipeline_slot) {
  const PreparedGraph& graph = *step.graph;
  const auto set = [&](Value input, auto member) {
    ints_.clear();
    for (const BatchToken& t : tokens) ints_.push_back(t.*member);
    return set_input(graph, input, ints_, pipeline_slot);
  };
  TESSERA_TRY(set(step.in.tokens, &BatchToken::token));
  TESSERA_TRY(set(step.in.positions, &BatchToken::position));
  TESSERA_TRY(set(step.in.sequences, &BatchToken::sequence));
  TESSERA_TRY(adapters_.fill(graph, step.adapters, tokens, pipeline_slot));
  if (step.rows.present() && step.in.outputs.present()) {  // an encoder computes all tokens and reads no outputs
    ints_.clear();
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].wants_logits) ints_.push_back(static_cast<int32_t>(i));
    TESSERA_TRY(set_input(graph, step.in.outputs, ints_, pipeline_slot));
  }
  for (size_t group = 0; group < reservation.cells.size(); ++group)
    if (const Value cells = step.in.groups[group].cells; cells.present())
      TESSERA_TRY(set_input(graph, cells, reservation.cells[group], pipeline_slot));
  for (const nn::CacheInputs& group : step.in.groups)
    if (group.stride > 0) TESSERA_TRY(set_entry_inputs(graph, group, tokens, pipeline_slot));
  if (step.in.segments.present()) TESSERA_TRY(set_input(graph, step.in.segments, reservation.segments, pipeline_slot));
  return {};
}

// Positions in the tables, and of entries, are below 2^25: both parts of a table have at most kMaxContext positions.
Result<> StepGraphs::set_entry_inputs(const PreparedGraph& graph, const nn::CacheInputs& in,
                                      std::span<const BatchToken> tokens, size_t pipeline_slot) {
  const auto set = [&](Value input, auto of_position) {
    ints_.clear();
    for (const BatchToken& t : tokens) ints_.push_back(static_cast<int32_t>(of_position(int64_t{t.position})));
    return set_input(graph, input, ints_, pipeline_slot);
  };
  TESSERA_TRY(set(in.positions, [&](int64_t p) { return in.n_entry_blocks * kKvBlockTokens + p; }));
  TESSERA_TRY(set(in.entry_positions, [&](int64_t p) { return std::max<int64_t>((p + 1) / in.stride - 1, 0); }));
  return set(in.entry_starts, [&](int64_t p) { return p - p % in.stride; });
}

Result<std::vector<float>> StepGraphs::rank(std::span<const float> embedding, const CancelToken* cancel) {
  if (ranker_.graph == nullptr) {
    TESSERA_ASSIGN(Graph graph, build_ranker(ranker_));
    TESSERA_ASSIGN(ranker_.graph, executor_->prepare(std::move(graph)));
  }
  TESSERA_TRY(set_input(*ranker_.graph, ranker_.x, embedding));
  TESSERA_TRY(executor_->run(*ranker_.graph, {.cancel = cancel}));
  const ModelInfo& model = model_.info();
  std::vector<float> scores(to_size(model.projects_pooled ? model.n_embd : model.n_scores));
  const Tensor& tensor = ranker_.graph->tensor(ranker_.scores.id());
  TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(scores))));
  return scores;
}

}  // namespace tessera
