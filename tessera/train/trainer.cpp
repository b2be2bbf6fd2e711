#include "tessera/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tessera/graph/autodiff.h"
#include "tessera/train/blueprint.h"

namespace tessera::train {

namespace {

constexpr int64_t kMaxMicroTokens = int64_t{1} << 20;

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// The RoPE factors stored in model files are constants.
bool is_learnable(const Weight& weight) { return weight.use != Op::rope_table; }

bool is_matrix(const Tensor& tensor) { return tensor.shape()[1] > 1; }

Result<> lay_out(Tensor& tensor, DType dtype) {
  tensor.dtype = dtype;
  TESSERA_ASSIGN(tensor.layout, contiguous_layout(dtype, tensor.shape()));
  return {};
}

std::vector<float> as_floats(const ModelFiles::Tensor& source, std::span<const std::byte> bytes) {
  std::vector<float> values(to_size(source.info.shape.n_elements()));
  if (source.info.dtype == DType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<uint16_t> halves(values.size());
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  std::ranges::transform(halves, values.begin(), source.info.dtype == DType::f16 ? f16_to_f32 : bf16_to_f32);
  return values;
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(const Device& device, Model& model, const TrainerOptions& options) {
  const ModelInfo& info = model.info();
  if (!info.has_logits || !info.is_causal || info.has_encoder())
    return fail(ErrorCode::unsupported, "{}: only decoders, which predict the next token, can be trained",
                info.architecture);
  if (options.n_ctx < 1 || options.n_ctx > info.n_ctx_train)
    return fail(ErrorCode::invalid_argument, "windows of {} tokens, want 1 to the model's context of {}", options.n_ctx,
                info.n_ctx_train);
  if (options.n_micro_windows < 1 || options.n_micro_windows > kMaxMicroTokens / options.n_ctx)
    return fail(ErrorCode::invalid_argument, "micro-batch of {} windows of {} tokens, want 1 to {}",
                options.n_micro_windows, options.n_ctx, kMaxMicroTokens / options.n_ctx);
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->options_ = options;
  trainer->device_ = &device;
  trainer->model_ = &model;
  TESSERA_TRY(trainer->plan_caches());
  TESSERA_ASSIGN(trainer->backend_, device.create_backend({.threads = options.threads}));
  trainer->executor_ = std::make_unique<Executor>(*trainer->backend_);
  TESSERA_TRY(trainer->list_parameters());
  Inputs in;
  std::vector<Graph> graphs(3);
  TESSERA_ASSIGN(graphs[0], trainer->build_pass(Pass::forward, in));
  TESSERA_ASSIGN(graphs[1], trainer->build_pass(Pass::backward, in));
  TESSERA_ASSIGN(graphs[2], trainer->build_update());
  TESSERA_ASSIGN(const std::vector<ComputeBytes> compute, trainer->executor_->measure(graphs));
  trainer->compute_bytes_ = compute.front().total();
  return trainer;
}

Result<> Trainer::plan_caches() {
  const ModelInfo& info = model_->info();
  TESSERA_ASSIGN(cache_, KvCache::plan(*device_, {.layers = info.kv_layers,
                                                  .type_k = DType::f32,
                                                  .type_v = DType::f32,
                                                  .n_ctx = options_.n_ctx,
                                                  .n_sequences = 1,
                                                  .n_ubatch = options_.n_ctx}));
  if (cache_->has_entries())
    return fail(ErrorCode::unsupported, "{}: models whose cache entries stand for several tokens cannot be trained",
                info.architecture);
  if (info.recurrent_layers.empty()) return {};
  TESSERA_ASSIGN(states_,
                 RecurrentCache::plan(*device_, {.layers = info.recurrent_layers,
                                                 .n_sequences = static_cast<int32_t>(options_.n_micro_windows)}));
  std::vector<BatchToken> tokens;
  for (int64_t i = 0; i < n_tokens(); ++i)
    tokens.push_back({.token = 0,
                      .position = static_cast<int32_t>(i % options_.n_ctx),
                      .sequence = static_cast<int32_t>(i / options_.n_ctx)});
  TESSERA_TRY(states_->reserve(tokens, segments_));
  states_->discard();
  return {};
}

// Learns the candidates that the loss depends on. All other weights are frozen.
Result<> Trainer::list_parameters() {
  std::vector<Candidate> candidates;
  TESSERA_TRY(list_candidates(candidates));
  for (const Candidate& candidate : candidates) learned_.push_back(candidate.tensor);
  std::unordered_set<const Tensor*> reached;
  GraphBuilder b;
  Inputs in;
  const Value losses = build_losses(b, in);
  add_gradients(b, losses, in.d_loss, learned_, [&](const Tensor& tensor, Value) { reached.insert(&tensor); });
  TESSERA_TRY(std::move(b).finish());

  learned_.clear();
  for (const auto& [tensor, is_layer_matrix] : candidates) {
    if (!reached.contains(tensor)) continue;
    TESSERA_TRY(parameters_.add(*tensor, rule_of(options_.optimizer.kind, is_layer_matrix), is_matrix(*tensor)));
    learned_.push_back(tensor);
  }
  if (learned_.empty()) return fail(ErrorCode::unsupported, "the model has nothing that can be trained");
  for (Weight& weight : model_->weights().weights()) {
    if (reached.contains(&weight.tensor)) continue;
    if (weight.source != nullptr) TESSERA_TRY(lay_out(weight.tensor, weight.source->info.dtype));
    parameters_.add_frozen(weight.tensor);
  }
  return parameters_.plan(device_->buffer_type());
}

Result<> Trainer::list_candidates(std::vector<Candidate>& candidates) {
  std::set<std::string_view> names;
  for (Weight& weight : model_->weights().weights()) {
    Tensor& tensor = weight.tensor;
    tensor.buffer_type = &device_->buffer_type();
    if (!names.insert(tensor.name).second)
      return fail(ErrorCode::unsupported, "{}: tensor {} is several weights: such models cannot be trained",
                  model_->info().architecture, tensor.name);
    const DType stored = weight.source == nullptr ? DType::f32 : weight.source->info.dtype;
    TESSERA_TRY(lay_out(tensor, stored));
    if (options_.lora != nullptr || !is_learnable(weight)) continue;
    if (!is_float(stored))
      return fail(
          ErrorCode::unsupported,
          "tensor {} is {}: of a quantized model only an adapter can be trained (option lora); all weights need a "
          "file in F32, F16 or BF16",
          tensor.name, info(stored).name);
    TESSERA_TRY(lay_out(tensor, options_.rounds_weights && is_matrix(tensor) ? DType::bf16 : DType::f32));
    const bool is_of_layer = weight.use == Op::mul_mat && weight.name.is_of_layer();
    candidates.push_back({&tensor, is_of_layer && is_matrix(tensor)});
  }
  if (options_.lora == nullptr) return {};
  for (Tensor& tensor : options_.lora->tensors()) {
    tensor.buffer_type = &device_->buffer_type();
    candidates.push_back({&tensor, true});
  }
  return {};
}

// --- graphs

Value Trainer::build_losses(GraphBuilder& b, Inputs& in) const {
  const int64_t t = n_tokens();
  in.batch.tokens = b.input("tokens", DType::i32, {t});
  in.batch.positions = b.input("positions", DType::i32, {t});
  in.batch.sequences = b.input("sequences", DType::i32, {t});
  in.batch.outputs = b.input("outputs", DType::i32, {t});
  in.targets = b.input("targets", DType::i32, {t});
  in.d_loss = b.input("d_loss", DType::f32, {1, t});
  // No cache cells: tokens attend only to the tokens of the batch.
  in.batch.groups.resize(cache_->groups().size());
  for (size_t il = 0; il < cache_->config().layers.size(); ++il)
    in.batch.group_of_layer.push_back(cache_->group_of(static_cast<int64_t>(il)));
  if (states_ != nullptr) {
    in.batch.states = states_.get();
    in.batch.segments = b.input("segments", DType::i32, {states_->n_segment_entries(t)});
  }
  if (options_.lora != nullptr) {
    in.scales = b.input("scales", DType::f32, {1, t});
    b.adapt({{.terms = &options_.lora->terms(), .scales = in.scales}});
  }
  const Value logits = model_->build(b, in.batch, *cache_);
  in.losses = b.output(b.cross_entropy(logits, in.targets), "losses");
  return in.losses;
}

std::vector<Value> Trainer::checkpoints(const GraphBuilder& b) const {
  std::vector<Value> values;
  if (!options_.recomputes) return values;
  const Graph& graph = b.graph();
  for (NodeId id = 0; id < graph.size(); ++id)
    if (graph[id].name.starts_with("layer.")) values.push_back(b.at(id));
  return values;
}

Result<Graph> Trainer::build_pass(Pass pass, Inputs& in) const {
  in = {};
  GraphBuilder b;
  const Value losses = build_losses(b, in);
  if (pass == Pass::backward) {
    std::unordered_map<const Tensor*, const Tensor*> gradient_of;
    for (const Parameter& p : parameters_.all()) gradient_of[p.weight] = &p.gradient;
    const std::vector<Value> kept = checkpoints(b);
    const GradientSink sink = [&](const Tensor& weight, Value gradient) {
      b.accumulate(b.tensor(*gradient_of.at(&weight)), gradient);
    };
    add_gradients(b, losses, in.d_loss, learned_, sink, {.checkpoints = kept});
  }
  return std::move(b).finish();
}

Result<Graph> Trainer::build_update() {
  GraphBuilder b;
  hypers_.clear();
  for (const Parameter& p : parameters_.all()) {
    auto hyper = std::ranges::find(hypers_, p.rule, &std::pair<Rule, Value>::first);
    if (hyper == hypers_.end())
      hyper = hypers_.insert(hyper, {p.rule, b.input("hyper", DType::f32, {int64_t{kHyperEntries}})});
    const ParameterTensors tensors{.weight = &p.values(),
                                   .rounded = p.is_rounded() ? p.weight : nullptr,
                                   .gradient = &p.gradient,
                                   .moment1 = &p.moment1,
                                   .moment2 = &p.moment2};
    add_update(b, tensors, p.rule, p.decays, hyper->second);
  }
  return std::move(b).finish();
}

// --- memory

Result<> Trainer::allocate() {
  TESSERA_TRY(parameters_.allocate());
  if (states_ != nullptr) TESSERA_TRY(states_->allocate());
  std::vector<Graph> graphs(3);
  TESSERA_ASSIGN(graphs[0], build_pass(Pass::forward, forward_in_));
  TESSERA_ASSIGN(graphs[1], build_pass(Pass::backward, backward_in_));
  TESSERA_ASSIGN(graphs[2], build_update());
  TESSERA_TRY(executor_->reserve(graphs));
  TESSERA_ASSIGN(forward_, executor_->prepare(std::move(graphs[0])));
  TESSERA_ASSIGN(backward_, executor_->prepare(std::move(graphs[1])));
  TESSERA_ASSIGN(update_, executor_->prepare(std::move(graphs[2])));
  ones_.assign(to_size(n_tokens()), 1.0f);
  losses_.resize(to_size(n_tokens()));
  return {};
}

Result<> Trainer::initialize(const ModelFiles& files, uint64_t seed) {
  std::unordered_map<const Tensor*, Parameter*> parameter_of;
  for (Parameter& p : parameters_.all()) parameter_of[p.weight] = &p;
  for (const Weight& weight : model_->weights().weights()) {
    const auto parameter = parameter_of.find(&weight.tensor);
    if (parameter == parameter_of.end()) {
      if (weight.source != nullptr)
        TESSERA_TRY(weight.tensor.buffer->set(weight.tensor, 0, files.data(*weight.source)));
      continue;
    }
    const std::vector<float> values = weight.source == nullptr ? initial_values(weight, model_->info().n_layers, seed)
                                                               : as_floats(*weight.source, files.data(*weight.source));
    TESSERA_TRY(Parameters::set_values(*parameter->second, values));
  }
  if (options_.lora != nullptr)
    for (Parameter& p : parameters_.all())
      TESSERA_TRY(Parameters::set_values(p, Lora::initial_values(*p.weight, seed)));
  return {};
}

// --- steps

Result<> Trainer::require_examples(const Examples& examples) const {
  const size_t n = examples.tokens.size(), n_ctx = to_size(options_.n_ctx);
  if (n == 0 || n % n_ctx != 0 || examples.targets.size() != n)
    return fail(ErrorCode::invalid_argument, "{} tokens and {} targets, want whole windows of {}", n,
                examples.targets.size(), n_ctx);
  const auto n_vocab = static_cast<int32_t>(model_->info().n_vocab);
  const auto wrong_token = [&](int32_t id) { return id < 0 || id >= n_vocab; };
  const auto wrong_target = [&](int32_t id) { return id < -1 || id >= n_vocab; };
  if (std::ranges::any_of(examples.tokens, wrong_token) || std::ranges::any_of(examples.targets, wrong_target))
    return fail(ErrorCode::invalid_argument, "a token is out of range, the vocabulary has {}", n_vocab);
  return {};
}

// A pass always computes n_micro_windows windows. Missing windows are filled with tokens without targets.
Result<Trainer::Losses> Trainer::run_pass(PreparedGraph& graph, const Inputs& in, const Examples& examples,
                                          const CancelToken* cancel) {
  const auto n = to_size(n_tokens()), n_ctx = to_size(options_.n_ctx);
  const auto set = [&](Value input, auto value_of) {
    ints_.resize(n);
    for (size_t i = 0; i < n; ++i) ints_[i] = static_cast<int32_t>(value_of(i));
    return set_input(graph, input, ints_);
  };
  const size_t n_given = examples.tokens.size();
  TESSERA_TRY(set(in.batch.tokens, [&](size_t i) { return i < n_given ? examples.tokens[i] : 0; }));
  TESSERA_TRY(set(in.targets, [&](size_t i) { return i < n_given ? examples.targets[i] : -1; }));
  TESSERA_TRY(set(in.batch.positions, [&](size_t i) { return i % n_ctx; }));
  TESSERA_TRY(set(in.batch.sequences, [&](size_t i) { return i / n_ctx; }));
  TESSERA_TRY(set(in.batch.outputs, [&](size_t i) { return i; }));
  if (in.batch.segments.present()) TESSERA_TRY(set_input(graph, in.batch.segments, segments_));
  TESSERA_TRY(set_input(graph, in.d_loss, ones_));
  if (in.scales.present()) TESSERA_TRY(set_input(graph, in.scales, ones_));
  TESSERA_TRY(executor_->run(graph, {.cancel = cancel}));
  const Tensor& tensor = graph.tensor(in.losses.id());
  TESSERA_TRY(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(losses_))));
  Losses losses;
  for (size_t i = 0; i < n_given; ++i) losses.sum += double{losses_[i]};
  losses.n = std::ranges::count_if(examples.targets, [](int32_t id) { return id >= 0; });
  return losses;
}

Result<Trainer::Losses> Trainer::run_passes(Pass pass, const Examples& examples, const CancelToken* cancel) {
  TESSERA_TRY(require_examples(examples));
  Losses total;
  const auto n_micro = to_size(n_tokens());
  for (size_t begin = 0; begin < examples.tokens.size(); begin += n_micro) {
    const size_t n = std::min(n_micro, examples.tokens.size() - begin);
    const Examples part{examples.tokens.subspan(begin, n), examples.targets.subspan(begin, n)};
    TESSERA_ASSIGN(const Losses losses, pass == Pass::backward ? run_pass(*backward_, backward_in_, part, cancel)
                                                               : run_pass(*forward_, forward_in_, part, cancel));
    total.sum += losses.sum;
    total.n += losses.n;
  }
  return total;
}

Result<Trainer::Losses> Trainer::evaluate(const Examples& examples, const CancelToken* cancel) {
  return run_passes(Pass::forward, examples, cancel);
}

Result<StepResult> Trainer::step(const Examples& examples, int64_t i, float learning_rate, const CancelToken* cancel) {
  TESSERA_TRY(parameters_.clear_gradients());
  TESSERA_ASSIGN(const Losses losses, run_passes(Pass::backward, examples, cancel));
  if (losses.n == 0) return fail(ErrorCode::invalid_argument, "a step without targets");
  TESSERA_ASSIGN(const double sum_norm, parameters_.gradient_norm());
  const StepResult result{losses.mean(), sum_norm / static_cast<double>(losses.n)};
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
    return fail(ErrorCode::limit, "the loss is {} and the gradient's norm {}", result.loss, result.gradient_norm);
  double scale = 1 / static_cast<double>(losses.n);
  if (options_.clip > 0 && result.gradient_norm > double{options_.clip})
    scale *= double{options_.clip} / result.gradient_norm;
  for (const auto& [rule, hyper] : hypers_) {
    const auto values = hyper_values(options_.optimizer, rule, i, learning_rate, static_cast<float>(scale));
    TESSERA_TRY(set_input(*update_, hyper, values));
  }
  // Not cancelled half way: parameters are all of one step.
  TESSERA_TRY(executor_->run(*update_));
  return result;
}

}  // namespace tessera::train
