// The adapters of a session: the scale of each for every sequence, and the adapters that a micro-batch needs. Each
// token has scales of its own, as inputs of a step. So sequences with different adapters are computed together, and the
// results have the same bits as when each is computed alone.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/batch/batch.h"
#include "tessera/engine/adapter.h"
#include "tessera/nn/inputs.h"
#include "tessera/sched/executor.h"

namespace tessera {

/// One adapter of a session, by its index in SessionOptions::adapters, and its scale; 0: not applied.
struct AdapterScale {
  size_t adapter = 0;
  float scale = 1.0f;

  friend bool operator==(const AdapterScale&, const AdapterScale&) = default;
};

class AdapterSet {
 public:
  /// Bit i: adapter i is applied.
  using Mask = uint64_t;
  /// The scales [1, n_tokens] that are inputs of a graph, by adapter.
  using Inputs = std::vector<std::pair<size_t, Value>>;

  AdapterSet() = default;
  /// Errors: limit (too many adapters); mismatch (an adapter of another engine); invalid_argument (a bad scale).
  static Result<AdapterSet> create(const Engine& engine, std::vector<SessionAdapter> adapters, int32_t n_sequences);

  std::span<const SessionAdapter> adapters() const { return adapters_; }
  Mask all() const;
  /// Adapters whose scale in SessionOptions is not 0.
  Mask initial() const;
  /// Adapters whose scale is not 0 for the sequence of at least one of the tokens.
  Mask used_by(std::span<const BatchToken> tokens) const;

  /// Sets the scales of a sequence; adapters that are not in the list get 0. Errors: invalid_argument (sequence,
  /// adapter, scale); then nothing changes.
  Result<> set(int32_t sequence, std::span<const AdapterScale> scales);

  /// The adapters of a sequence whose scale is not 0, ascending. The sequence must exist.
  std::vector<AdapterScale> scales_of(int32_t sequence) const;

  /// Adds the terms of adapters to a graph; called before the model adds its nodes. Returns the inputs to fill().
  Inputs add_to(GraphBuilder& b, Mask mask, const nn::BatchInputs& in) const;
  /// Sets the scales of a micro-batch. Errors: those of Buffer::set().
  Result<> fill(const PreparedGraph& graph, const Inputs& inputs, std::span<const BatchToken> tokens,
                size_t pipeline_slot = 0);

  /// Refuses a graph of all adapters that uses an adapted weight without its terms. Errors: unsupported.
  Result<> require_terms(const Graph& graph) const;

 private:
  float& scale(int32_t sequence, size_t adapter) { return scales_[to_size(sequence) * adapters_.size() + adapter]; }
  float scale(int32_t sequence, size_t adapter) const {
    return scales_[to_size(sequence) * adapters_.size() + adapter];
  }

  std::vector<SessionAdapter> adapters_;
  std::vector<float> scales_;     // by sequence, then adapter
  std::vector<float> of_tokens_;  // reused
  int32_t n_sequences_ = 0;
};

}  // namespace tessera
