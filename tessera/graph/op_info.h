// Properties of an operation that the scheduler, backends and tools read. ops/<family>.cpp defines them (op_def.h).
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/graph/node.h"

namespace tessera {

struct OpDef;

struct OpInfo {
  std::string_view name;
  const OpDef* def;
};

const OpInfo& info(Op op);

/// Returns type and layout of an operation's result. Total: accepts any operands and parameters. Errors explain why the
/// operands are refused.
Result<TensorSpec> infer(Op op, Operands operands, const OpParams& params);

/// True if the result may use the memory of source i, because elements or rows are processed separately.
bool may_run_in_place(Op op, size_t source);

/// True if the node changes the bytes of its source i: a cache, a state, a parameter.
bool writes_operand(const Node& node, size_t source);
/// By storage: true if some node of the graph changes its bytes in this way.
std::vector<bool> changed_storages(const Graph& graph);

/// Multiply-adds, and bytes read and written, of a perfect kernel.
struct Cost {
  int64_t macs = 0;
  int64_t bytes = 0;
};

Cost cost(const Graph& graph, NodeId id);

/// The names and values of an operation's parameters.
ParamList list_params(const OpParams& params);

/// A node and its operands for messages: "mul_mat blk.0.attn_q.weight q4_K [64, 64], norm f32 [64, 7]".
std::string describe(const Graph& graph, NodeId id);
std::string describe(const Graph& graph, Op op, std::span<const NodeId> sources);

/// The spec of a contiguous result, for shape rules.
Result<TensorSpec> contiguous(DType dtype, const Shape& shape);

}  // namespace tessera
