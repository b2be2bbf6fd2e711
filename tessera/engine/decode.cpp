// The decoding of batches, and the encoding of prompts.
#include <algorithm>
#include <chrono>
#include <tuple>

#include "tessera/base/index.h"
#include "tessera/engine/session.h"

namespace tessera {

// A micro-batch on its way through the pipeline.
struct Session::MicroBatch {
  std::span<const BatchToken> tokens{};
  int64_t first_output = 0;  // among the rows of the batch
  int64_t n_outputs = 0;
  const PreparedStep* step = nullptr;  // null: not started
};

namespace {

Result<> report_products(const PreparedGraph& prepared, const ProductObserver& observer) {
  const Graph& graph = prepared.graph();
  std::vector<float> sums;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op != Op::sum_squares || !node.is_output) continue;
    sums.resize(to_size(node.spec.shape()[0]));
    const Tensor& tensor = prepared.tensor(id);
    TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(sums))));
    const std::string_view weight = std::string_view(node.name).substr(0, node.name.size() - kObservedSuffix.size());
    observer(weight, sums, graph[node.sources[0]].spec.shape().n_rows());
  }
  return {};
}

}  // namespace

int64_t Session::row_width() const { return options_.embeddings ? model_->info().n_embd : model_->info().n_logits(); }

int64_t Session::hidden_width() const {
  return (options_.follower == nullptr ? *model_ : options_.follower->model()).info().hidden_width();
}

// Elements of the hidden states of a micro-batch. Sizes are checked: a micro-batch and a row are bounded.
int64_t Session::most_hidden() const {
  if (options_.part == SessionPart::model) return 0;
  const bool is_head = options_.part == SessionPart::head;
  return (is_head ? std::min(options_.n_outputs, options_.n_ubatch) : options_.n_ubatch) * hidden_width();
}

std::span<const float> Session::row(int64_t i) const { return {rows_.data() + i * row_width(), to_size(row_width())}; }

Result<> Session::decode(const Batch& batch, const CancelToken* cancel) {
  n_outputs_ = 0;
  hidden_ = {};
  const std::span<const BatchToken> tokens = batch.tokens();
  if (batch.n_outputs() > options_.n_outputs)
    return fail(ErrorCode::invalid_argument, "{} wanted for {} tokens, the session has room for {}",
                options_.embeddings ? "embeddings" : "logits", batch.n_outputs(), options_.n_outputs);
  TESSERA_TRY(require_tokens(tokens));
  TESSERA_TRY(memory_->require_positions(tokens));
  if (auto encoded = memory_->require_prompts(tokens); !encoded)
    return forward_error(encoded, model_->info().architecture);
  TESSERA_ASSIGN(const std::vector<Range> parts, micro_batches(batch));
  auto done = run_pipeline(tokens, parts, cancel);
  if (done) done = engine_->require_files();
  if (!done) {
    for (size_t slot = 0; slot < graphs_->n_pipeline_slots(); ++slot) std::ignore = graphs_->executor().wait(slot);
    TESSERA_TRY(memory_->rollback());
    return done;
  }
  TESSERA_TRY(memory_->commit());
  n_outputs_ = batch.n_outputs();
  return {};
}

Result<> Session::decode_after(const Batch& batch, std::span<const float> hidden, const CancelToken* cancel) {
  if (options_.part != SessionPart::head || batch.size() > options_.n_ubatch ||
      std::ssize(hidden) != batch.size() * hidden_width())
    return fail(ErrorCode::invalid_argument, "hidden states of {} elements for {} tokens of a head", hidden.size(),
                batch.size());
  given_hidden_ = hidden;
  return decode(batch, cancel);
}

Result<> Session::require_tokens(std::span<const BatchToken> tokens) const {
  for (const BatchToken& t : tokens)
    if (t.token < 0 || t.token >= model_->info().n_vocab)
      return fail(ErrorCode::invalid_argument, "token {} at position {}, want 0 to {}", t.token, t.position,
                  model_->info().n_vocab - 1);
  return {};
}

// A model that is not causal needs whole sequences in each micro-batch.
Result<std::vector<Range>> Session::micro_batches(const Batch& batch) const {
  if (options_.embeddings ? model_->info().embeds_causally() : model_->info().is_causal)
    return split(batch, options_.n_ubatch);
  const std::span<const BatchToken> tokens = batch.tokens();
  std::vector<bool> is_seen(to_size(options_.n_sequences));
  std::vector<Range> parts;
  for (int64_t begin = 0, end = 0; begin < batch.size(); begin = end) {
    const int32_t sequence = tokens[to_size(begin)].sequence;
    while (end < batch.size() && tokens[to_size(end)].sequence == sequence) ++end;
    if (is_seen[to_size(sequence)] || max_position(sequence))
      return fail(ErrorCode::invalid_argument, "sequence {} comes in pieces: this model computes a sequence at once",
                  sequence);
    is_seen[to_size(sequence)] = true;
    if (end - begin > options_.n_ubatch)
      return fail(
          ErrorCode::invalid_argument,
          "a sequence of {} tokens, micro-batch of {} (option n_ubatch): this model computes a sequence at once",
          end - begin, options_.n_ubatch);
    if (!parts.empty() && end - parts.back().begin <= options_.n_ubatch)
      parts.back().end = end;
    else
      parts.push_back({begin, end});
  }
  return parts;
}

// A micro-batch starts when the one before it in its pipeline slot has ended.
Result<> Session::run_pipeline(std::span<const BatchToken> tokens, std::span<const Range> parts,
                               const CancelToken* cancel) {
  const size_t n_slots = step_observer_ ? 1 : std::min(graphs_->n_pipeline_slots(), parts.size());
  std::vector<MicroBatch> in_slots(n_slots);
  int64_t n_outputs = 0;
  for (size_t i = 0; i < parts.size() + n_slots; ++i) {
    const size_t slot = i % n_slots;
    MicroBatch& part = in_slots[slot];
    if (part.step != nullptr) TESSERA_TRY(finish(part, slot));
    part = {};
    if (i >= parts.size()) continue;
    part.tokens = tokens.subspan(to_size(parts[i].begin), to_size(parts[i].size()));
    part.first_output = n_outputs;
    part.n_outputs = std::ranges::count(part.tokens, true, &BatchToken::wants_logits);
    n_outputs += part.n_outputs;
    TESSERA_TRY(start(part, slot, n_slots, cancel));
  }
  return {};
}

// With one pipeline slot the micro-batch is run to its end.
Result<> Session::start(MicroBatch& part, size_t pipeline_slot, size_t n_pipeline_slots, const CancelToken* cancel) {
  const StepShape shape{std::ssize(part.tokens), part.n_outputs, adapters_.used_by(part.tokens)};
  TESSERA_ASSIGN(part.step, graphs_->decode_step(shape, n_pipeline_slots));
  TESSERA_TRY(memory_->reserve(part.tokens, reservation_));
  TESSERA_TRY(graphs_->set_inputs(*part.step, part.tokens, reservation_, pipeline_slot));
  if (part.step->in.hidden.present())
    TESSERA_TRY(set_input(*part.step->graph, part.step->in.hidden, given_hidden_, pipeline_slot));
  if (n_pipeline_slots == 1) return run_step(*part.step, part.n_outputs, cancel);
  return graphs_->executor().start(*part.step->graph, {.pipeline_slot = pipeline_slot, .cancel = cancel});
}

Result<> Session::finish(const MicroBatch& part, size_t pipeline_slot) {
  TESSERA_TRY(graphs_->executor().wait(pipeline_slot));
  const PreparedGraph& graph = *part.step->graph;
  if (options_.observer) TESSERA_TRY(report_products(graph, options_.observer));
  if (part.step->hidden.present()) TESSERA_TRY(take_hidden(part, pipeline_slot));
  if (part.n_outputs == 0) return {};
  const int64_t width = row_width();
  const Tensor& tensor = graph.tensor(part.step->rows.id(), pipeline_slot);
  const std::span<float> rows(rows_.data() + part.first_output * width, to_size(part.n_outputs * width));
  return tensor.buffer->get(tensor, 0, std::as_writable_bytes(rows));
}

Result<> Session::take_hidden(const MicroBatch& part, size_t pipeline_slot) {
  const Tensor& tensor = part.step->graph->tensor(part.step->hidden.id(), pipeline_slot);
  const std::span<float> hidden = std::span(hidden_rows_).first(to_size(tensor.shape().n_elements()));
  TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(hidden)));
  hidden_ = hidden;
  if (hidden_follower_) hidden_follower_(part.tokens, hidden);
  return {};
}

Result<> Session::run_step(const PreparedStep& step, int64_t n_outputs, const CancelToken* cancel) {
  PreparedGraph& graph = *step.graph;
  GraphRunOptions options{.cancel = cancel};
  if (!step_observer_) {
    if (options_.watch.see) options.observe = [&](NodeId id, const Tensor&) { return options_.watch.see(graph, id); };
    return graphs_->executor().run(graph, options);
  }
  RunLog log;
  options.log = &log;
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(graphs_->executor().run(graph, options));
  step_observer_({graph, log, begin, step.shape.n_tokens, n_outputs});
  return {};
}

Result<std::vector<float>> Session::rank(std::span<const float> embedding, const CancelToken* cancel) {
  if (!options_.embeddings || !model_->info().has_pooled_head())
    return fail(ErrorCode::unsupported, "{}: no rank head", engine_->files().name());
  return graphs_->rank(embedding, cancel);
}

// A prompt is computed whole, in a step of its own. The decoder's layers attend to the cache that stores it.
Result<> Session::encode(int32_t sequence, std::span<const int32_t> tokens, const CancelToken* cancel) {
  if (!has_encoder())
    return fail(ErrorCode::unsupported, "{}: no encoder beside the decoder", model_->info().architecture);
  TESSERA_TRY(memory_->remove_prompt(sequence));
  if (tokens.empty()) return fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  const Batch prompt = Batch::prompt(tokens, 0, sequence);
  TESSERA_TRY(require_tokens(prompt.tokens()));
  if (prompt.size() > options_.n_ubatch)
    return fail(ErrorCode::invalid_argument,
                "a prompt of {} tokens, micro-batch of {} (option n_ubatch): an encoder computes a prompt at once",
                prompt.size(), options_.n_ubatch);
  auto done = run_encoder(prompt.tokens(), cancel);
  if (done) done = engine_->require_files();
  if (!done) {
    TESSERA_TRY(memory_->rollback());
    return done;
  }
  return memory_->commit();
}

Result<> Session::run_encoder(std::span<const BatchToken> tokens, const CancelToken* cancel) {
  // With all adapters or none: a scale of 0 leaves the bits as they are.
  const AdapterSet::Mask adapters = adapters_.used_by(tokens) == 0 ? 0 : adapters_.all();
  TESSERA_ASSIGN(const PreparedStep* step, graphs_->encode_step({std::ssize(tokens), std::ssize(tokens), adapters}));
  TESSERA_TRY(memory_->reserve_prompt(tokens, reservation_));
  TESSERA_TRY(graphs_->set_inputs(*step, tokens, reservation_));
  return run_step(*step, 0, cancel);
}

}  // namespace tessera
