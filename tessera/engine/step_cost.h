// The least that a decode step must compute and read. Benchmarks compare measured times with it.
#pragma once

#include "tessera/backend/backend.h"
#include "tessera/graph/node.h"

namespace tessera {

/// The costs that do not depend on positions, and the costs per position of the others.
struct StepCost {
  double macs = 0;                   // multiply-adds with weights
  double int8_macs = 0;              // the part of macs with quantized weights
  double half_macs = 0;              // the part of macs with F16 and BF16 weights
  double weight_bytes = 0;           // of all multiplied weights, as the file stores them
  double macs_per_pair = 0;          // attention: per pair of a token and a position that it attends to
  double kv_bytes_per_position = 0;  // K and V of one position, all layers

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

/// The cost of one node of paged attention.
struct AttentionCost {
  double macs_per_pair = 0;  // as in StepCost
  double kv_bytes_per_position = 0;
};
AttentionCost attention_cost(const Graph& graph, const Node& node);

/// The cost of a graph built by a model.
StepCost step_cost(const Graph& graph);

}  // namespace tessera
