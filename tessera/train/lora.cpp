#include "tessera/train/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/base/rng.h"

namespace tessera::train {

namespace {

constexpr int64_t kMaxRank = 4096;

Result<Tensor> matrix(std::string name, const Shape& shape) {
  TESSERA_ASSIGN(const Layout layout, contiguous_layout(DType::f32, shape));
  return Tensor{{DType::f32, layout}, std::move(name)};
}

}  // namespace

Result<std::unique_ptr<Lora>> Lora::create(const Model& model, const LoraOptions& options) {
  if (options.rank < 1 || options.rank > kMaxRank)
    return fail(ErrorCode::invalid_argument, "LoRA rank {}, want 1 to {}", options.rank, kMaxRank);
  if (!std::isfinite(options.alpha) || options.alpha <= 0)
    return fail(ErrorCode::invalid_argument, "LoRA alpha {}, want above 0", options.alpha);
  std::unique_ptr<Lora> lora(new Lora);
  lora->options_ = options;
  std::set<std::string_view> found;
  for (const Weight& weight : model.weights().weights()) {
    const Shape& w = weight.tensor.shape();
    const auto target = std::ranges::find(options.targets, weight.name.role);
    const bool is_target = target != options.targets.end() && weight.name.stack.empty() && weight.name.kind == "weight";
    if (!is_target || weight.use != Op::mul_mat || w[2] != 1 || w[3] != 1) continue;
    found.insert(*target);
    TESSERA_ASSIGN(Tensor down, matrix(weight.tensor.name + ".lora_a", {w[0], options.rank}));
    TESSERA_ASSIGN(Tensor up, matrix(weight.tensor.name + ".lora_b", {options.rank, w[1]}));
    const Tensor& a = lora->tensors_.emplace_back(std::move(down));
    const Tensor& b = lora->tensors_.emplace_back(std::move(up));
    lora->terms_.products[&weight.tensor] = {&a, &b, options.alpha / static_cast<float>(options.rank)};
  }
  for (const std::string& target : options.targets)
    if (!options.has_default_targets && !found.contains(target))
      return fail(ErrorCode::not_found, "the model has no matrix {} for LoRA", target);
  if (found.empty()) return fail(ErrorCode::not_found, "the model has no matrices for LoRA: name some");
  return lora;
}

std::vector<float> Lora::initial_values(const Tensor& tensor, uint64_t seed) {
  std::vector<float> values(to_size(tensor.shape().n_elements()), 0.0f);
  if (tensor.name.ends_with(".lora_b")) return values;
  Rng rng(Hash64().add(seed).add(tensor.name).value());
  const float limit = 1.0f / std::sqrt(static_cast<float>(tensor.shape()[0]));
  for (float& value : values) value = rng.next_float(-limit, limit);
  return values;
}

}  // namespace tessera::train
