#include "tessera/graph/op_info.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

#define TESSERA_OP(enumerator, name, gradient)                      \
  Result<TensorSpec> infer_##enumerator(Operands, const OpParams&); \
  TESSERA_GRADIENT_RULE_##gradient(enumerator)
#define TESSERA_GRADIENT_RULE_differentiable(enumerator) void gradient_##enumerator(Gradient&);
#define TESSERA_GRADIENT_RULE_constant(enumerator)
#define TESSERA_GRADIENT_RULE_forward_only(enumerator)
#include "tessera/graph/ops.def"
#undef TESSERA_OP

namespace {

constexpr OpInfo kOps[] = {
#define TESSERA_OP(enumerator, name, gradient) {name, infer_##enumerator, TESSERA_GRADIENT_##gradient(enumerator)},
#define TESSERA_GRADIENT_differentiable(enumerator) gradient_##enumerator
#define TESSERA_GRADIENT_constant(enumerator) gradient_of_constant
#define TESSERA_GRADIENT_forward_only(enumerator) nullptr
#include "tessera/graph/ops.def"
#undef TESSERA_OP
};

int64_t bytes_of(const TensorSpec& spec) { return static_cast<int64_t>(span_bytes(spec.dtype, spec.layout)); }

Cost cost_of_experts(const Graph& graph, const Node& node) {
  const Shape& weights = graph[node.sources[0]].spec.shape();
  Cost cost{.macs = weights[0] * node.spec.shape().n_elements(),
            .bytes = bytes_of(node.spec) + used_expert_bytes(graph, node)};
  for (const NodeId source : node.inputs().subspan(1)) cost.bytes += bytes_of(graph[source].spec);
  return cost;
}

// A recurrent step: one slot of the state is read and one written at the least, whatever the runs say; each element of
// a slot's row takes part in `per_element` multiply-adds for each element of the result.
Cost cost_of_recurrence(const Graph& graph, const Node& node, size_t state, int64_t per_element) {
  Cost cost{.macs = per_element * node.spec.shape().n_elements(), .bytes = bytes_of(node.spec)};
  for (size_t i = 0; i < node.n_sources; ++i)
    if (node.sources[i] != kNoNode)
      cost.bytes += i == state ? 2 * graph[node.sources[i]].spec.layout.nb[1] : bytes_of(graph[node.sources[i]].spec);
  return cost;
}

// The same for its gradient, whose last operand has the forward result's shape.
Cost cost_of_recurrence_gradient(const Graph& graph, const Node& node, size_t state, int64_t per_element) {
  Cost cost = cost_of_recurrence(graph, node, state, 0);
  cost.macs = per_element * graph[node.inputs().back()].spec.shape().n_elements();
  return cost;
}

// Of all heads, as if all tokens were one sequence's.
int64_t pairs_of_tokens(const Graph& graph, const Node& node) {
  const Shape& q = graph[node.sources[0]].spec.shape();
  const auto& params = std::get<AttentionParams>(node.params);
  return q[1] * (params.causal ? q[2] * (q[2] + 1) / 2 : q[2] * q[2]);
}

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }

// Leaves, copies and views have no operands to judge: who makes them makes their specs itself.
Result<TensorSpec> infer_input(Operands, const OpParams&) { return fail(ErrorCode::internal, "input has no rule"); }
Result<TensorSpec> infer_tensor(Operands, const OpParams&) { return fail(ErrorCode::internal, "tensor has no rule"); }
Result<TensorSpec> infer_copy(Operands, const OpParams&) { return fail(ErrorCode::internal, "copy has no rule"); }
Result<TensorSpec> infer_view(Operands, const OpParams&) { return fail(ErrorCode::internal, "view has no rule"); }

bool may_run_in_place(Op op, size_t source) {
  switch (op) {
    case Op::add:
    case Op::add_scaled:
    case Op::mul:
    case Op::div:
    case Op::scale:
    case Op::silu:
    case Op::sigmoid:
    case Op::gelu:
    case Op::relu_squared:
    case Op::soft_cap:
    case Op::clamp:
    case Op::sqrt:
    case Op::top_groups:
    case Op::soft_max:
    case Op::rms_norm:
    case Op::layer_norm:
    case Op::softplus:
    case Op::exp:
    case Op::l2_norm:
    case Op::rope:
    case Op::cross_entropy_grad:
      return source == 0;
    case Op::silu_grad:
    case Op::gelu_grad:
    case Op::clamp_grad:
    case Op::soft_max_grad:
    case Op::l2_norm_grad:
      return source <= 1;
    case Op::rms_norm_grad:
    case Op::layer_norm_grad:
      return source == 0 || source == 2;
    case Op::swiglu:
    case Op::geglu:
    case Op::swiglu_oai:
      return source <= 1;
    case Op::adam:
      return source == 2;
    default:
      return false;
  }
}

bool writes_operand(const Node& node, size_t source) {
  switch (node.op) {
    case Op::kv_store:
    case Op::accumulate:
    case Op::momentum:
      return source == 0;
    case Op::adam:
      return source <= 1;
    case Op::descend:
      return source == 0 || source == 3;
    case Op::causal_conv:
      return source == 2;
    case Op::token_shift:
    case Op::selective_scan:
    case Op::delta_net:
    case Op::rwkv7:
      return source + 2 == node.n_sources;
    default:
      return false;
  }
}

std::vector<bool> changed_storages(const Graph& graph) {
  std::vector<bool> changed(static_cast<size_t>(graph.size()));
  for (const Node& node : graph.nodes())
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode && writes_operand(node, i))
        changed[static_cast<size_t>(graph.storage(node.sources[i]))] = true;
  return changed;
}

Cost cost(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  if (!node.is_work()) return {};
  Cost cost{.macs = 0, .bytes = bytes_of(node.spec)};
  switch (node.op) {
    case Op::get_rows:  // only the rows that are fetched
    case Op::kv_load:
      cost.bytes *= 2;
      return cost;
    case Op::kv_store:
      cost.bytes = 2 * bytes_of(graph[node.sources[1]].spec);
      return cost;
    case Op::attention:  // the cache is read as far as it is filled, which the graph does not know
      cost.bytes += bytes_of(graph[node.sources[0]].spec);
      return cost;
    case Op::mul_mat_heads:
      cost.macs = graph[node.sources[0]].spec.shape().n_elements() * node.spec.shape()[2];
      break;
    case Op::mul_mat:
      cost.macs = graph[node.sources[0]].spec.shape().n_elements() * node.spec.shape()[1];
      break;
    case Op::mul_mat_experts:
      return cost_of_experts(graph, node);
    case Op::expert_rows:
      cost.bytes *= 2;
      return cost;
    case Op::expert_sum:
    case Op::expert_totals:
    case Op::expert_dot:
      cost.macs = graph[node.sources[0]].spec.shape().n_elements();
      break;
    case Op::expert_outer:  // x times y of each pair
      cost.macs = node.spec.shape()[0] * graph[node.sources[1]].spec.shape().n_elements();
      break;
    case Op::causal_conv:
      return cost_of_recurrence(graph, node, 2, graph[node.sources[1]].spec.shape()[0]);
    case Op::token_shift:
      return cost_of_recurrence(graph, node, 1, 0);
    case Op::selective_scan:  // the input, the state, the output
      return cost_of_recurrence(graph, node, 6, 3 * graph[node.sources[3]].spec.shape()[0]);
    case Op::delta_net:  // decay, what is known, what is learnt, the output
      return cost_of_recurrence(graph, node, 5, 4 * graph[node.sources[0]].spec.shape()[0]);
    case Op::rwkv7:  // decay, what is removed, the removal, the value, the output
      return cost_of_recurrence(graph, node, 6, 5 * node.spec.shape()[0]);
    case Op::causal_conv_grad:
      return cost_of_recurrence_gradient(graph, node, 2, 2 * graph[node.sources[1]].spec.shape()[0]);
    case Op::token_shift_grad:
      return cost_of_recurrence_gradient(graph, node, 1, 0);
    case Op::selective_scan_grad:  // the state twice, then back
      return cost_of_recurrence_gradient(graph, node, 6, 10 * graph[node.sources[3]].spec.shape()[0]);
    case Op::delta_net_grad:
      return cost_of_recurrence_gradient(graph, node, 5, 15 * graph[node.sources[0]].spec.shape()[0]);
    case Op::rwkv7_grad:
      return cost_of_recurrence_gradient(graph, node, 6, 19 * graph[node.sources[0]].spec.shape()[0]);
    case Op::self_attention:  // scores and sums of values
      cost.macs = pairs_of_tokens(graph, node) * (graph[node.sources[0]].spec.shape()[0] + node.spec.shape()[0]);
      break;
    case Op::self_attention_grad: {  // scores, dq and dk; the weights' gradients and dv
      const Shape& dy = graph[node.sources[6]].spec.shape();
      cost.macs = pairs_of_tokens(graph, node) * (3 * graph[node.sources[0]].spec.shape()[0] + 2 * dy[0]);
      break;
    }
    case Op::sum_squares:
      cost.macs = graph[node.sources[0]].spec.shape().n_elements();
      break;
    default:
      break;
  }
  for (const NodeId source : node.inputs())
    if (source != kNoNode) cost.bytes += bytes_of(graph[source].spec);
  return cost;
}

int64_t used_expert_bytes(const Graph& graph, const Node& node) {
  const TensorSpec& weights = graph[node.sources[0]].spec;
  return weights.layout.nb[2] * std::min(weights.shape()[2], node.spec.shape()[1]);
}

std::string describe(const Graph& graph, Op op, std::span<const NodeId> sources) {
  std::string text(info(op).name);
  std::string_view separator = " ";
  for (const NodeId id : sources) {
    if (id == kNoNode) continue;
    const Node& source = graph[id];
    fmt::format_to(std::back_inserter(text), "{}{} {} {}", separator,
                   source.name.empty() ? info(source.op).name : source.name, info(source.spec.dtype).name,
                   to_string(source.spec.shape()));
    separator = ", ";
  }
  return text;
}

std::string describe(const Graph& graph, NodeId id) { return describe(graph, graph[id].op, graph[id].inputs()); }

Result<> want_operands(Operands operands, size_t min, size_t max) {
  if (operands.size() < min || operands.size() > max)
    return fail(ErrorCode::invalid_argument, "{} operands, want {} to {}", operands.size(), min, max);
  for (size_t i = 0; i < min; ++i)
    if (operands[i] == nullptr) return fail(ErrorCode::invalid_argument, "operand {} is missing", i);
  return {};
}

Result<> want_f32_rows(const TensorSpec& spec, std::string_view what) {
  if (spec.dtype != DType::f32)
    return fail(ErrorCode::invalid_argument, "{} is {}, want f32", what, info(spec.dtype).name);
  if (!has_contiguous_rows(spec.dtype, spec.layout))
    return fail(ErrorCode::invalid_argument, "{} {}: elements of a row are {} bytes apart, want 4", what,
                to_string(spec.shape()), spec.layout.nb[0]);
  return {};
}

Result<> want_i32_vector(const TensorSpec& spec, std::string_view what, int64_t n) {
  if (spec.dtype != DType::i32)
    return fail(ErrorCode::invalid_argument, "{} is {}, want i32", what, info(spec.dtype).name);
  if (spec.shape().n_rows() != 1 || !has_contiguous_rows(spec.dtype, spec.layout))
    return fail(ErrorCode::invalid_argument, "{} {}: want a contiguous vector", what, to_string(spec.shape()));
  if (n >= 0 && spec.shape()[0] != n)
    return fail(ErrorCode::invalid_argument, "{} has {} entries, want {}", what, spec.shape()[0], n);
  return {};
}

Result<> want_i32_matrix(const TensorSpec& spec, std::string_view what) {
  if (spec.dtype != DType::i32)
    return fail(ErrorCode::invalid_argument, "{} is {}, want i32", what, info(spec.dtype).name);
  if (spec.shape()[2] != 1 || spec.shape()[3] != 1 || !is_contiguous(spec.dtype, spec.layout))
    return fail(ErrorCode::invalid_argument, "{} {}: want a contiguous matrix", what, to_string(spec.shape()));
  return {};
}

Result<TensorSpec> contiguous(DType dtype, const Shape& shape) {
  TESSERA_ASSIGN(const Layout layout, contiguous_layout(dtype, shape));
  return TensorSpec{dtype, layout};
}

}  // namespace tessera
