// The adapters of a session: how much of each every sequence gets, and so which of them a micro-batch needs. Scales are
// inputs of a step by token: sequences with other adapters, or none, are computed together and get what they would get
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tessera/batch/batch.h"
#include "tessera/engine/adapter.h"
#include "tessera/nn/inputs.h"
#include "tessera/sched/executor.h"

namespace tessera {

/// One adapter of a session, by its place in SessionOptions::adapters, and its scale; 0: not at all.
struct AdapterScale {
  size_t adapter = 0;
  float scale = 1.0f;
};

class AdapterSet {
 public:
  /// Bit i: adapter i takes part.
  using Mask = uint64_t;
  /// The scales [1, n_tokens] that a graph takes, by adapter.
  using Inputs = std::vector<std::pair<size_t, Value>>;

  AdapterSet() = default;
  /// Errors: limit (too many); mismatch (an adapter of another engine); invalid_argument (a scale).
  static Result<AdapterSet> create(const Engine& engine, std::vector<SessionAdapter> adapters, int32_t n_sequences);

  std::span<const SessionAdapter> adapters() const { return adapters_; }
  Mask all() const;
  /// Those with which sequences begin.
  Mask initial() const;
  Mask used_by(std::span<const BatchToken> tokens) const;

  /// The scales of a sequence; adapters that are not named get 0. Errors: invalid_argument; then nothing changes.
  Result<> set(int32_t sequence, std::span<const AdapterScale> scales);

  /// Makes a graph one of these adapters: before anything of the model is added.
  Inputs add_to(GraphBuilder& b, Mask mask, const nn::BatchInputs& in) const;
  Result<> fill(const PreparedGraph& graph, const Inputs& inputs, std::span<const BatchToken> tokens,
                size_t pipeline_slot = 0);

  /// Whether a graph of all adapters has the terms of every weight that it uses. Errors: unsupported.
  Result<> require_terms(const Graph& graph) const;

 private:
  float& scale(int32_t sequence, size_t adapter) {
    return scales_[static_cast<size_t>(sequence) * adapters_.size() + adapter];
  }
  float scale(int32_t sequence, size_t adapter) const {
    return scales_[static_cast<size_t>(sequence) * adapters_.size() + adapter];
  }

  std::vector<SessionAdapter> adapters_;
  std::vector<float> scales_;     // by sequence, then adapter
  std::vector<float> of_tokens_;  // reused
  int32_t n_sequences_ = 0;
};

}  // namespace tessera
