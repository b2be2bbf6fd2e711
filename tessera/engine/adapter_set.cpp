#include "tessera/engine/adapter_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace tessera {

namespace {

constexpr size_t kMaxAdapters = 64;  // bits of a mask

Result<> require_scale(const Adapter& adapter, float scale) {
  if (std::isfinite(scale)) return {};
  return fail(ErrorCode::invalid_argument, "{}: scale {}, want a finite number", adapter.name(), scale);
}

}  // namespace

Result<AdapterSet> AdapterSet::create(const Engine& engine, std::vector<SessionAdapter> adapters, int32_t n_sequences) {
  AdapterSet set;
  set.adapters_ = std::move(adapters);
  if (set.adapters_.size() > kMaxAdapters)
    return fail(ErrorCode::limit, "{} adapters, limit {}", set.adapters_.size(), kMaxAdapters);
  for (const auto& [adapter, scale] : set.adapters_) {
    if (&adapter->engine() != &engine)
      return fail(ErrorCode::mismatch, "{}: opened for another model", adapter->name());
    TESSERA_TRY(require_scale(*adapter, scale));
  }
  set.n_sequences_ = n_sequences;
  for (int32_t sequence = 0; sequence < n_sequences; ++sequence)
    for (const SessionAdapter& adapter : set.adapters_) set.scales_.push_back(adapter.scale);
  return set;
}

AdapterSet::Mask AdapterSet::all() const {
  return adapters_.empty() ? Mask{0} : ~Mask{0} >> (kMaxAdapters - adapters_.size());
}

AdapterSet::Mask AdapterSet::initial() const {
  Mask mask = 0;
  for (size_t i = 0; i < adapters_.size(); ++i)
    if (adapters_[i].scale != 0.0f) mask |= Mask{1} << i;
  return mask;
}

AdapterSet::Mask AdapterSet::used_by(std::span<const BatchToken> tokens) const {
  Mask mask = 0;
  for (size_t i = 0; i < adapters_.size(); ++i)
    if (std::ranges::any_of(tokens, [&](const BatchToken& token) { return scale(token.sequence, i) != 0.0f; }))
      mask |= Mask{1} << i;
  return mask;
}

std::vector<AdapterScale> AdapterSet::scales_of(int32_t sequence) const {
  std::vector<AdapterScale> scales;
  for (size_t i = 0; i < adapters_.size(); ++i)
    if (scale(sequence, i) != 0) scales.push_back({.adapter = i, .scale = scale(sequence, i)});
  return scales;
}

Result<> AdapterSet::set(int32_t sequence, std::span<const AdapterScale> scales) {
  if (sequence < 0 || sequence >= n_sequences_)
    return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, n_sequences_ - 1);
  std::vector<float> wanted(adapters_.size());
  for (const auto& [adapter, scale] : scales) {
    if (adapter >= adapters_.size())
      return fail(ErrorCode::invalid_argument, "adapter {}, the session has {}", adapter, adapters_.size());
    TESSERA_TRY(require_scale(*adapters_[adapter].adapter, scale));
    wanted[adapter] = scale;
  }
  for (size_t i = 0; i < wanted.size(); ++i) this->scale(sequence, i) = wanted[i];
  return {};
}

AdapterSet::Inputs AdapterSet::add_to(GraphBuilder& b, Mask mask, const nn::BatchInputs& in) const {
  const int64_t n_tokens = b.spec(in.tokens).shape()[0];
  Inputs inputs;
  std::vector<ActiveAdapter> active;
  for (size_t i = 0; i < adapters_.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    const Value scales = b.input(fmt::format("adapter.{}", i), DType::f32, {1, n_tokens});
    const bool some_wanted = in.outputs.present() && b.spec(in.outputs).shape()[0] != n_tokens;
    const Value wanted = some_wanted ? b.get_rows(scales, in.outputs) : Value();
    active.push_back({&adapters_[i].adapter->terms(), scales, wanted});
    inputs.emplace_back(i, scales);
  }
  b.adapt(std::move(active));
  return inputs;
}

Result<> AdapterSet::fill(const PreparedGraph& graph, const Inputs& inputs, std::span<const BatchToken> tokens,
                          size_t pipeline_slot) {
  for (const auto& [adapter, input] : inputs) {
    of_tokens_.clear();
    for (const BatchToken& token : tokens) of_tokens_.push_back(scale(token.sequence, adapter));
    TESSERA_TRY(set_input(graph, input, of_tokens_, pipeline_slot));
  }
  return {};
}

Result<> AdapterSet::require_terms(const Graph& graph) const {
  std::unordered_set<const Tensor*> used;
  for (const Node& node : graph.nodes())
    if (node.tensor != nullptr) used.insert(node.tensor);
  for (const auto& [adapter, scale] : adapters_) {
    const AdapterTerms& terms = adapter->terms();
    const auto is_there = [&](const auto& by_weight, const Tensor* weight) {
      const auto found = by_weight.find(weight);
      return found != by_weight.end() && used.contains(found->second.down);
    };
    for (const Tensor* weight : used) {
      const bool is_adapted = terms.products.contains(weight) || terms.rows.contains(weight);
      if (is_adapted && !is_there(terms.products, weight) && !is_there(terms.rows, weight))
        return fail(ErrorCode::unsupported, "{}: an adapter cannot follow what the model does with {}", adapter->name(),
                    weight->name);
    }
    for (const Tensor* layer : terms.layers)
      if (layer != nullptr && !used.contains(layer))
        return fail(ErrorCode::unsupported, "{}: this architecture does not support control vectors", adapter->name());
  }
  return {};
}

}  // namespace tessera
