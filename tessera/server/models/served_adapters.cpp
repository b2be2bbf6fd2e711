#include "tessera/server/models/served_adapters.h"

#include <utility>

namespace tessera::server {

ServedAdapters::ServedAdapters(std::vector<SessionAdapter> adapters) : adapters_(std::move(adapters)) {
  for (size_t i = 0; i < adapters_.size(); ++i) {
    if (adapters_[i].adapter->lora() == nullptr) continue;
    loras_.push_back(i);
    scales_.push_back(adapters_[i].scale);
  }
}

std::vector<float> ServedAdapters::scales() const {
  const std::lock_guard lock(mutex_);
  return scales_;
}

void ServedAdapters::set_scales(std::span<const LoraScale> named) {
  std::vector<float> scales(loras_.size());
  for (const LoraScale& one : named) scales[static_cast<size_t>(one.id)] = one.scale;
  const std::lock_guard lock(mutex_);
  scales_ = std::move(scales);
}

std::vector<AdapterScale> ServedAdapters::of_request(const std::optional<std::vector<LoraScale>>& named) const {
  std::vector<float> scales(adapters_.size());
  for (size_t i = 0; i < adapters_.size(); ++i) scales[i] = adapters_[i].scale;
  const std::vector<float> of_server = this->scales();
  for (size_t id = 0; id < loras_.size(); ++id) scales[loras_[id]] = named ? 0 : of_server[id];
  if (named)
    for (const LoraScale& one : *named) scales[loras_[static_cast<size_t>(one.id)]] = one.scale;
  std::vector<AdapterScale> adapters;
  for (size_t i = 0; i < scales.size(); ++i)
    if (scales[i] != 0) adapters.push_back({.adapter = i, .scale = scales[i]});
  return adapters;
}

}  // namespace tessera::server
