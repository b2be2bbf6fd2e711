// The least that a decode step must compute and read. Benchmarks compare measured times with it.
#pragma once

#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/graph/node.h"

namespace tessera {

/// The positions to which the tokens of a sequence attend, or whose keys they score to choose among them.
struct AttentionReach {
  bool causal = true;
  int64_t window = 0;    // as in AttentionParams
  bool chunked = false;  // as in AttentionParams
  int64_t n_chosen = 0;  // > 0: at most this many of those positions

  /// Pairs of a token and a position to which it attends, for n tokens from a position on.
  double pairs(int64_t position, int64_t n) const;
  /// The least number of positions whose K and V these tokens read. Tokens may choose the same ones.
  double positions(int64_t position, int64_t n) const;
  bool operator==(const AttentionReach&) const = default;
};

/// The cost of attention, or of a choice of keys.
struct AttentionCost {
  double macs_per_pair = 0;
  double kv_bytes_per_position = 0;
  AttentionReach reach{};

  double macs_at(int64_t position, int64_t n) const { return macs_per_pair * reach.pairs(position, n); }
  double bytes_at(int64_t position, int64_t n) const { return kv_bytes_per_position * reach.positions(position, n); }
};
/// The cost of a node of paged_attention or choose_keys.
AttentionCost attention_cost(const Graph& graph, const Node& node);

/// The costs that do not depend on positions, and the costs per position of the others.
struct StepCost {
  double macs = 0;                   // multiply-adds with weights
  double int8_macs = 0;              // the part of macs with quantized weights
  double half_macs = 0;              // the part of macs with F16 and BF16 weights
  double weight_bytes = 0;           // of all multiplied weights, as the file stores them
  double macs_per_pair = 0;          // attention: per pair of a token and a position that it attends to, all layers
  double kv_bytes_per_position = 0;  // K and V of one position, all layers
  std::vector<AttentionCost> attention{};  // the two above, by the positions to which tokens attend

  /// All multiply-adds of n tokens of a sequence from a position on.
  double macs_at(int64_t position, int64_t n) const;
  /// All bytes that they read.
  double bytes_at(int64_t position, int64_t n) const;
  /// The operands of most multiply-adds with weights.
  Arithmetic arithmetic(ActivationPrecision activations) const;
};

/// The cost of a product with weights.
struct ProductCost {
  double macs = 0;
  double weight_bytes = 0;  // as the file stores them; of experts those that may be used
  DType type = DType::f32;  // of the weights
};
ProductCost product_cost(const Graph& graph, NodeId id);

/// The cost of a graph built by a model.
StepCost step_cost(const Graph& graph);

}  // namespace tessera
