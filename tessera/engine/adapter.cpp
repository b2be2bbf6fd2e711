#include "tessera/engine/adapter.h"

#include <algorithm>
#include <charconv>

#include "tessera/base/index.h"
#include "tessera/engine/fingerprint.h"
#include "tessera/engine/tensor_values.h"
#include "tessera/engine/weight_loader.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"
#include "tessera/quant/formats.h"

namespace tessera {

namespace {

constexpr std::string_view kDirection = "direction.";
constexpr std::string_view kControlVector = "controlvector";

// The layer in a name such as "direction.3"; no value for other names.
std::optional<int64_t> layer_of_direction(std::string_view name) {
  if (!name.starts_with(kDirection)) return std::nullopt;
  name.remove_prefix(kDirection.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return layer;
}

}  // namespace

const Tensor* Adapter::add(const ModelFiles::Tensor& source, Op use, const Weight* beside) {
  Tensor tensor{{source.info.dtype, *contiguous_layout(source.info.dtype, source.info.shape)},
                std::string(source.info.name)};  // checked by the reader
  beside_.push_back(beside);
  return &weights_.emplace_back(std::move(tensor), use, &source).tensor;
}

// --- LoRA

Result<std::shared_ptr<Adapter>> Adapter::open_lora(const Engine& engine, const std::string& path) {
  std::shared_ptr<Adapter> adapter(new Adapter(engine));
  TESSERA_ASSIGN(LoraFile lora, LoraFile::open(path, engine.files()));
  adapter->lora_.emplace(std::move(lora));
  for (const LoraPair& pair : adapter->lora_->pairs()) TESSERA_TRY(adapter->add_pair(pair));
  TESSERA_TRY(adapter->place());
  return adapter;
}

Result<> Adapter::add_pair(const LoraPair& pair) {
  const auto is_it = [&](const Weight& weight) { return weight.source == pair.weight; };
  const auto& weights = engine_.model().weights().weights();
  const auto first = std::ranges::find_if(weights, is_it);
  if (first == weights.end())
    return fail(ErrorCode::mismatch, "{}: tensor {}: the model {} does not use {}", name(),
                quote_name(pair.down->info.name), engine_.files().name(), quote_name(pair.weight->info.name));
  const Tensor *down = add(*pair.down, first->use, &*first),
               *up = add(*pair.up, pair.is_table ? Op::mul_mat : first->use, &*first);
  for (const Weight& weight : weights) {
    if (!is_it(weight)) continue;
    if (pair.is_table) terms_.rows[&weight.tensor] = {down, up, lora_->factor(pair)};
    if (!pair.is_table || weight.use == Op::mul_mat) TESSERA_TRY(add_product(pair, weight, down, up));
  }
  return {};
}

Result<> Adapter::add_product(const LoraPair& pair, const Weight& weight, const Tensor* down, const Tensor* up) {
  if (weight.use != Op::mul_mat && weight.use != Op::mul_mat_experts)
    return fail(ErrorCode::unsupported, "{}: tensor {}: an adapter cannot follow what the model does with {}", name(),
                quote_name(pair.down->info.name), quote_name(weight.tensor.name));
  LowRank& term = terms_.products[&weight.tensor];
  term = {down, up, lora_->factor(pair)};
  if (!pair.is_table) return {};
  // The token table is also an output matrix. Its rows are down's rows times up's columns.
  TESSERA_TRY(plan_transposed(pair));
  transposed_beside_ = &weight;
  term = {&transposed_, down, lora_->factor(pair)};
  return {};
}

Result<> Adapter::plan_transposed(const LoraPair& pair) {
  const quant::Format* format = quant::find_format(pair.up->info.dtype);
  if (format == nullptr)
    return fail(ErrorCode::unsupported, "{}: tensor {}: type {} has no decoder", name(), quote_name(pair.up->info.name),
                info(pair.up->info.dtype).name);
  TESSERA_ASSIGN(const Layout layout, contiguous_layout(DType::f32, {pair.up->info.shape[1], pair.rank}));
  transposed_ = {{DType::f32, layout}, std::string(pair.up->info.name) + ".transposed"};
  transposed_source_ = pair.up;
  return {};
}

Result<> Adapter::fill_transposed() {
  const auto n = to_size(transposed_.shape()[0]), rank = to_size(transposed_.shape()[1]);
  std::vector<float> values(n * rank);
  size_t i = 0;
  TESSERA_TRY(read_values(files(), *transposed_source_, [&](std::span<const float> piece) -> Result<> {
    for (const float value : piece) {
      values[i % rank * n + i / rank] = value;
      ++i;
    }
    return {};
  }));
  return transposed_.buffer->set(transposed_, 0, std::as_bytes(std::span(values)));
}

// --- control vectors

Result<std::shared_ptr<Adapter>> Adapter::open_control_vector(const Engine& engine, const std::string& path,
                                                              const LayerSpan& span) {
  std::shared_ptr<Adapter> adapter(new Adapter(engine));
  adapter->span_ = span;
  TESSERA_ASSIGN(adapter->files_, ModelFiles::open(path));
  TESSERA_TRY(adapter->require_control_vector());
  for (const ModelFiles::Tensor& tensor : adapter->files_->tensors()) TESSERA_TRY(adapter->add_direction(tensor, span));
  if (adapter->terms_.layers.empty())
    return fail(ErrorCode::invalid_argument, "{}: no direction for layers {} to {}", path, span.first, span.last);
  TESSERA_TRY(adapter->place());
  return adapter;
}

Result<> Adapter::require_control_vector() const {
  const Metadata& metadata = files_->metadata();
  TESSERA_ASSIGN(const auto architecture, metadata.get<std::string_view>(keys::kArchitecture));
  if (architecture != kControlVector)
    return fail(ErrorCode::mismatch, "{}: architecture {}, a control vector's is \"{}\"", name(),
                quote_name(architecture), kControlVector);
  const std::string& of_model = engine_.model().info().architecture;
  TESSERA_ASSIGN(const auto hint, metadata.get_or<std::string_view>(keys::kControlVectorHint, of_model));
  if (hint != of_model)
    return fail(ErrorCode::mismatch, "{}: a control vector for architecture {}, the model {} is {}", name(),
                quote_name(hint), engine_.files().name(), quote_name(of_model));
  if (files_->tensors().empty()) return fail(ErrorCode::format, "{}: a control vector without directions", name());
  return {};
}

Result<> Adapter::add_direction(const ModelFiles::Tensor& tensor, const LayerSpan& span) {
  const ModelInfo& model = engine_.model().info();
  const GgufTensor& source = tensor.info;
  const auto layer = layer_of_direction(source.name);
  if (!layer)
    return fail(ErrorCode::unsupported, "{}: tensor {}: want names like {}1", name(), quote_name(source.name),
                kDirection);
  if (*layer < 1 || *layer >= model.n_layers)
    return fail(ErrorCode::mismatch, "{}: tensor {}: the model {} takes {}1 to {}", name(), quote_name(source.name),
                engine_.files().name(), kDirection, model.n_layers - 1);
  if (source.dtype != DType::f32 || source.shape != Shape{model.n_embd})
    return fail(ErrorCode::mismatch, "{}: tensor {} is {} {}, the model {} wants f32 {}", name(),
                quote_name(source.name), info(source.dtype).name, to_string(source.shape), engine_.files().name(),
                to_string(Shape{model.n_embd}));
  if (*layer < span.first || *layer > span.last) return {};
  const auto i = to_size(*layer);
  if (terms_.layers.size() <= i) terms_.layers.resize(i + 1);
  // The direction is stored beside the layer's first weight.
  const auto is_of_layer = [&](const Weight& weight) { return weight.name.layer == layer; };
  const auto& weights = engine_.model().weights().weights();
  const auto beside = std::ranges::find_if(weights, is_of_layer);
  terms_.layers[i] = add(tensor, Op::add_scaled, beside == weights.end() ? &weights.front() : &*beside);
  return {};
}

// --- memory

Result<> Adapter::place() {
  loaded_ = false;
  memory_ = {};
  const auto plan_one = [&](Tensor& tensor, Op use, const Weight& beside) {
    tensor.buffer = nullptr;
    memory_.add(tensor, engine_.placement().type_beside(beside, tensor, use));
  };
  for (size_t i = 0; i < weights_.size(); ++i) plan_one(weights_[i].tensor, weights_[i].use, *beside_[i]);
  if (transposed_source_ != nullptr) plan_one(transposed_, Op::mul_mat, *transposed_beside_);
  auto planned = memory_.plan();
  if (!planned) return forward_error(planned, name());
  return {};
}

std::vector<MemoryPart> Adapter::planned_memory() const {
  return memory_parts(MemoryPart::Kind::weights, memory_.planned());
}

std::vector<MemoryPart> Adapter::allocated_memory() const {
  return memory_parts(MemoryPart::Kind::weights, memory_.allocated());
}

uint64_t Adapter::fingerprint() const {
  Hash64 hash;
  add_fingerprint(hash, files());
  return hash.add(static_cast<uint64_t>(span_.first)).add(static_cast<uint64_t>(span_.last)).value();
}

Result<> Adapter::load() {
  if (loaded_) return {};
  TESSERA_TRY(memory_.allocate(BufferUsage::weights));
  // Adapters are small, so all values are checked: the product of a scale and a value must be finite.
  std::vector<Weight*> weights;
  for (Weight& weight : weights_) weights.push_back(&weight);
  TESSERA_TRY(WeightLoader(files(), {.check = true}).load(weights, {}, {}));
  if (transposed_source_ != nullptr) TESSERA_TRY(fill_transposed());
  loaded_ = true;
  return {};
}

}  // namespace tessera
