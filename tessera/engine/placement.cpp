#include "tessera/engine/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "tessera/backend/weight_support.h"
#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr std::string_view kCpu = "cpu";

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool has_memory(const Device& device) { return &device.buffer_type().device() == &device; }

bool can_use_in(const Device& device, Op use, Tensor tensor, const BufferType& type) {
  tensor.buffer_type = &type;
  return can_use_weight(device, use, tensor);
}

bool can_hold(const BufferType& type, const Tensor& tensor) {
  const auto bytes = type.tensor_bytes(tensor.dtype, tensor.shape());
  return bytes && *bytes <= type.max_size();
}

bool is_product(Op use) { return use == Op::mul_mat || use == Op::mul_mat_heads || use == Op::mul_mat_experts; }

}  // namespace

Result<ModelPlacement> ModelPlacement::create(const Registry& registry, const ModelInfo& model,
                                              const PlacementOptions& options) {
  ModelPlacement placement;
  TESSERA_ASSIGN(placement.devices_, find_devices(registry, options));
  for (const Device* device : placement.devices_)
    if (!has_memory(*device)) placement.memoryless_ = device;
  TESSERA_TRY(placement.add_rules(registry, options));
  TESSERA_TRY(placement.set_shares(options));
  placement.place_entries(model, options);
  placement.n_cpu_expert_layers_ = options.n_cpu_expert_layers;
  placement.offload_caches_ = options.offload_caches;
  return placement;
}

Result<std::vector<const Device*>> ModelPlacement::find_devices(const Registry& registry,
                                                                const PlacementOptions& options) {
  std::vector<const Device*> devices;
  if (options.devices.empty()) devices = registry.gpus();
  for (const std::string& name : options.devices) {
    if (same_name(name, kCpu) || same_name(name, "none")) continue;
    TESSERA_ASSIGN(const std::vector<const Device*> found, registry.find_all(name));
    for (const Device* device : found) {
      if (std::ranges::find(devices, device) != devices.end())
        return fail(ErrorCode::invalid_argument, "device {} is named twice", device->name());
      devices.push_back(device);
    }
  }
  auto cpu = registry.find(kCpu);
  if (!cpu && devices.empty()) return forward_error(cpu);
  if (cpu) devices.push_back(*cpu);
  return devices;
}

Result<> ModelPlacement::add_rules(const Registry& registry, const PlacementOptions& options) {
  const auto find = [&](const std::string& target, const TensorPattern& pattern) -> Result<Rule> {
    for (const Device* device : devices_)
      if (same_name(device->name(), target)) return Rule{pattern, device, nullptr};
    for (const Device* device : devices_)
      for (const BufferType* type : device->buffer_types())
        if (same_name(type->name(), target)) return Rule{pattern, nullptr, type};
    std::vector<std::string_view> known;
    for (const Device* device : devices_) {
      known.push_back(device->name());
      for (const BufferType* type : device->buffer_types())
        if (type->name() != device->name()) known.push_back(type->name());
    }
    if (const auto other = registry.find(target))
      return fail(ErrorCode::invalid_argument, "device {} is not among those used (option devices)", target);
    return fail(ErrorCode::not_found, "no device or memory named {} (there are: {})", target, fmt::join(known, ", "));
  };
  for (const PlacementRule& rule : options.rules) {
    TESSERA_ASSIGN(const TensorPattern pattern, TensorPattern::compile(rule.pattern));
    TESSERA_ASSIGN(Rule found, find(rule.target, pattern));
    rules_.push_back(std::move(found));
  }
  return {};
}

Result<> ModelPlacement::set_shares(const PlacementOptions& options) {
  for (const Device* device : devices_)
    if (device != devices_.back() && has_memory(*device)) shares_.push_back({device, 0});
  if (shares_.empty()) return {};
  if (options.shares.size() > shares_.size())
    return fail(ErrorCode::invalid_argument, "{} shares for {} devices", options.shares.size(), shares_.size());
  if (options.main_device < 0 || options.main_device >= static_cast<int64_t>(shares_.size()))
    return fail(ErrorCode::invalid_argument, "main device {}, want 0 to {}", options.main_device, shares_.size() - 1);
  main_ = shares_[to_size(options.main_device)].device;
  splits_rows_ = options.split == SplitMode::row;
  if (options.split == SplitMode::none) shares_ = {{main_, 1}};

  double sum = 0;
  for (size_t d = 0; d < shares_.size(); ++d) {
    const double free = static_cast<double>(std::max<uint64_t>(shares_[d].device->memory().free_bytes, 1));
    const double share = options.split == SplitMode::none || options.shares.empty() ? free
                         : d < options.shares.size()                                ? double{options.shares[d]}
                                                                                    : 0;
    if (share < 0 || !std::isfinite(share))
      return fail(ErrorCode::invalid_argument, "a device's share is {}, want at least 0", share);
    shares_[d].share_end = sum += share;
  }
  if (sum <= 0) return fail(ErrorCode::invalid_argument, "the devices' shares sum to 0");
  for (DeviceShare& share : shares_) share.share_end /= sum;
  return {};
}

// Divides entries as llama.cpp does: of n offloaded entries, numbered from 0, entry i is on the first device up to
// which the shares sum to more than i / n.
void ModelPlacement::place_entries(const ModelInfo& model, const PlacementOptions& options) {
  const int64_t n_entries = model.n_layers + 1;
  entries_.assign(to_size(n_entries), &cpu());
  if (shares_.empty()) return;
  const int64_t n_asked = options.n_gpu_layers == kAutoLayers ? n_entries : options.n_gpu_layers;
  const int64_t n_offloaded = std::clamp<int64_t>(n_asked, 0, n_entries);
  for (int64_t i = 0; i < n_offloaded; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(n_offloaded);
    const auto found = std::ranges::find_if(
        shares_, [&](double up_to) { return up_to > at; }, &DeviceShare::share_end);
    entries_[to_size(n_entries - n_offloaded + i)] = splits_rows_ ? main_ : found->device;
  }
}

int64_t ModelPlacement::n_offloaded() const {
  return std::ranges::count_if(entries_, [&](const Device* device) { return device != &cpu(); });
}

const Device& ModelPlacement::cache_of(int64_t layer) const {
  return offload_caches_ ? entry(std::clamp<int64_t>(layer, 0, n_entries() - 2)) : cpu();
}

std::vector<const Device*> ModelPlacement::caches_of(std::span<const int64_t> layers) const {
  std::vector<const Device*> devices;
  for (const int64_t layer : layers) devices.push_back(&cache_of(layer));
  return devices;
}

const ModelPlacement::Rule* ModelPlacement::rule_for(const std::string& name) const {
  for (const Rule& rule : rules_)
    if (rule.pattern.matches(name)) return &rule;
  return nullptr;
}

const Device& ModelPlacement::device_of(const Weight& weight) const {
  const WeightName& name = weight.name;
  if (name.layer && *name.layer < n_cpu_expert_layers_ && name.is_expert()) return cpu();
  if (name.layer) return entry(std::min(*name.layer, n_entries() - 2));
  if (weight.use == Op::get_rows) return rows_device();
  // Weights that precede no layer and follow none, such as factors of ropes, are with the first layer.
  return entry(name.is_output() || name.is_token_table() ? n_entries() - 1 : 0);
}

// A GPU that has all layers looks up the rows of tokens too, so that a step neither waits for the CPU nor for a copy.
const Device& ModelPlacement::rows_device() const {
  const bool has_all = n_offloaded() == n_entries() && entry(0).kind() == DeviceKind::gpu;
  return has_all ? entry(0) : cpu();
}

const BufferType& ModelPlacement::device_type(const Device& device, Op use, const Tensor& tensor, bool pack) const {
  return pack ? device.weight_buffer_type(use, tensor.dtype, tensor.shape()) : device.buffer_type();
}

// Matrices that a device without memory of its own can multiply by get its preferred memory.
const BufferType& ModelPlacement::cpu_type(Op use, const Tensor& tensor, bool pack) const {
  if (!pack) return cpu().buffer_type();
  const bool helps =
      memoryless_ != nullptr && use == Op::mul_mat && can_use_in(*memoryless_, use, tensor, cpu().buffer_type());
  return helps ? memoryless_->weight_buffer_type(use, tensor.dtype, tensor.shape())
               : cpu().weight_buffer_type(use, tensor.dtype, tensor.shape());
}

Result<const BufferType*> ModelPlacement::type_of(const Weight& weight, bool pack) const {
  const Tensor& tensor = weight.tensor;
  const Rule* rule = rule_for(tensor.name);
  if (rule != nullptr && rule->type != nullptr) {
    const auto bytes = rule->type->tensor_bytes(tensor.dtype, tensor.shape());
    const BufferType& plain = rule->type->device().buffer_type();
    const bool is_plain = rule->type->is_host() || rule->type == &plain;  // else panels, which only products read
    if (!bytes || (!is_plain && !is_product(weight.use)))
      return fail(ErrorCode::invalid_argument, "tensor {} cannot lie in {}: {}", tensor.name, rule->type->name(),
                  bytes ? "only what is multiplied does" : bytes.error().message());
    return rule->type;
  }
  const Device& device = rule != nullptr ? *rule->device : device_of(weight);
  if (&device == &cpu()) return &cpu_type(weight.use, tensor, pack);
  const BufferType& type = device_type(device, weight.use, tensor, pack);
  const bool is_both = weight.use == Op::mul_mat && weight.name.is_token_table();
  const bool is_fit = can_hold(type, tensor) && can_use_in(device, weight.use, tensor, type) &&
                      (!is_both || can_use_in(device, Op::get_rows, tensor, type));
  return is_fit ? &type : &cpu_type(weight.use, tensor, pack);
}

// Divides rows by the shares, in whole panels: a product of fewer rows costs as much as one of a whole panel.
std::vector<Tensor> ModelPlacement::row_parts_of(const Weight& weight, bool pack) const {
  constexpr int64_t kRows = 16;
  const Tensor& whole = weight.tensor;
  const Shape& shape = whole.shape();
  const bool is_matrix = weight.use == Op::mul_mat && shape[2] == 1 && shape[3] == 1 && !weight.name.is_token_table();
  if (!splits_rows_ || shares_.size() < 2 || !is_matrix || rule_for(whole.name) != nullptr ||
      &device_of(weight) != main_)
    return {};
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const DeviceShare& share : shares_) {
    const auto n_panels = static_cast<int64_t>(std::llround(static_cast<double>(shape[1] / kRows) * share.share_end));
    const int64_t end = share.share_end >= 1 ? shape[1] : std::max(begin, n_panels * kRows);
    if (begin == end) continue;
    Tensor part{
        {whole.dtype, contiguous_layout(whole.dtype, {shape[0], end - begin}).value()},  // smaller than the whole
        fmt::format("{}[{}:{}]", whole.name, begin, end)};
    part.layer = whole.layer;
    part.buffer_type = &device_type(*share.device, weight.use, part, pack);
    if (!can_hold(*part.buffer_type, part) || !can_use_in(*share.device, weight.use, part, *part.buffer_type))
      return {};
    parts.push_back(std::move(part));
    begin = end;
  }
  return parts.size() < 2 ? std::vector<Tensor>() : parts;
}

const BufferType& ModelPlacement::type_beside(const Weight& weight, const Tensor& tensor, Op use) const {
  const Device& device = weight.tensor.buffer_type->device();
  const BufferType& type = device.weight_buffer_type(use, tensor.dtype, tensor.shape());
  return can_hold(type, tensor) && can_use_in(device, use, tensor, type) ? type : cpu_type(use, tensor, true);
}

}  // namespace tessera
