// What a decoding step must compute and read at the least: the yardstick that benchmarks hold measured times against.
#pragma once

#include "tessera/graph/node.h"

namespace tessera {

/// Costs that do not depend on positions, and the slopes of those that do.
struct StepCost {
  double macs = 0;                   // multiply-adds with weights
  double int8_macs = 0;              // of these, with weights that are stored in blocks and multiplied as integers
  double weight_bytes = 0;           // of the weights that are multiplied, as the file stores them
  double macs_per_pair = 0;          // attention: for each pair of a token and a position that it sees
  double kv_bytes_per_position = 0;  // K and V of one position, all layers

  bool is_mostly_int8() const { return 2 * int8_macs > macs; }
};

/// The cost of a graph that a model has built.
StepCost step_cost(const Graph& graph);

}  // namespace tessera
