// What every operation must tell about itself: its name, its shape rule, whether it may work in place, its cost.
#pragma once

#include <string_view>

#include "tessera/graph/node.h"

namespace tessera {

class Gradient;

/// An operand in a shape rule; null where an optional operand is absent.
using Operands = std::span<const TensorSpec* const>;

/// Multiply-adds and bytes read and written: what a perfect kernel would do.
struct Cost {
  int64_t macs = 0;
  int64_t bytes = 0;
};

struct OpInfo {
  std::string_view name;
  /// Type and layout of the result, or why these operands are refused. Total: any operands, any parameters.
  Result<TensorSpec> (*infer)(Operands, const OpParams&);
  /// Adds the gradients of the operands to the graph (gradient.h); null: there are none.
  void (*gradient)(Gradient&);
};

/// The gradient of what does not change with its operands: none of them gets any.
void gradient_of_constant(Gradient& g);

const OpInfo& info(Op op);

/// True when the result may take the place of source i (same bytes, element-wise or row-wise use).
bool may_run_in_place(Op op, size_t source);

/// True when the node changes the bytes of its source i: what it stores into, or a memory that it keeps.
bool writes_operand(const Node& node, size_t source);
/// By storage: whether some node of the graph changes its bytes so.
std::vector<bool> changed_storages(const Graph& graph);

Cost cost(const Graph& graph, NodeId id);
/// Bytes of the weights that a mul_mat_experts reads: of as many experts as its rows can ask for.
int64_t used_expert_bytes(const Graph& graph, const Node& node);

/// A node and its operands for messages: "mul_mat blk.0.attn_q.weight q4_K [64, 64], norm f32 [64, 7]".
std::string describe(const Graph& graph, NodeId id);
std::string describe(const Graph& graph, Op op, std::span<const NodeId> sources);

// For the rules in ops/.

/// errors unless there are between min and max operands and the first min are present.
Result<> want_operands(Operands operands, size_t min, size_t max);
/// error unless the operand is f32 with contiguous rows.
Result<> want_f32_rows(const TensorSpec& spec, std::string_view what);
/// error unless the operand is a contiguous vector of n i32 (n < 0: of any length).
Result<> want_i32_vector(const TensorSpec& spec, std::string_view what, int64_t n);
/// error unless the operand is a contiguous matrix of i32.
Result<> want_i32_matrix(const TensorSpec& spec, std::string_view what);
/// A contiguous result.
Result<TensorSpec> contiguous(DType dtype, const Shape& shape);

}  // namespace tessera
