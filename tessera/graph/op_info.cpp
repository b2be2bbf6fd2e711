#include "tessera/graph/op_info.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/graph/op_def.h"

namespace tessera {

namespace {

constexpr OpInfo kOps[] = {
#define TESSERA_OP(name, family, parameters, devices) {#name, &op_defs::name},
#include "tessera/graph/ops.def"
};

const OpDef& def(Op op) { return *info(op).def; }

}  // namespace

const OpInfo& info(Op op) { return kOps[to_size(op)]; }

Result<TensorSpec> infer(Op op, Operands operands, const OpParams& params) {
  const auto [min, max] = def(op).n_operands;
  if (operands.size() < min || operands.size() > max)
    return fail(ErrorCode::invalid_argument, "{} operands, want {} to {}", operands.size(), min, max);
  for (size_t i = 0; i < min; ++i)
    if (operands[i] == nullptr) return fail(ErrorCode::invalid_argument, "operand {} is missing", i);
  return def(op).infer(operands, params);
}

bool may_run_in_place(Op op, size_t source) { return def(op).in_place.contains(source); }

bool writes_operand(const Node& node, size_t source) { return def(node.op).writes.contains(source); }

std::vector<bool> changed_storages(const Graph& graph) {
  std::vector<bool> changed(to_size(graph.size()));
  for (const Node& node : graph.nodes())
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode && writes_operand(node, i))
        changed[to_size(graph.storage(node.sources[i]))] = true;
  return changed;
}

Cost cost(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  return node.is_work() ? def(node.op).cost(graph, node) : Cost{};
}

int64_t result_bytes(const Node& node) { return static_cast<int64_t>(span_bytes(node.spec.dtype, node.spec.layout)); }

int64_t operand_bytes(const Graph& graph, const Node& node, size_t i) {
  return node.sources[i] == kNoNode ? 0 : result_bytes(graph[node.sources[i]]);
}

Cost cost_of_memory(const Graph& graph, const Node& node) {
  Cost cost{.bytes = result_bytes(node)};
  for (size_t i = 0; i < node.n_sources; ++i) cost.bytes += operand_bytes(graph, node, i);
  return cost;
}

Cost cost_of_each_element(const Graph& graph, const Node& node) {
  Cost cost = cost_of_memory(graph, node);
  cost.macs = graph[node.sources[0]].spec.shape().n_elements();
  return cost;
}

Cost cost_of_copied_rows(const Graph&, const Node& node) { return {.bytes = 2 * result_bytes(node)}; }

ParamList list_params(const OpParams& params) {
  ParamList list;
  std::visit([&](const auto& own) { own.list(list); }, params);
  return list;
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

Result<> require_f32_rows(const TensorSpec& spec, std::string_view what) {
  if (spec.dtype != DType::f32)
    return fail(ErrorCode::invalid_argument, "{} is {}, want f32", what, info(spec.dtype).name);
  if (!has_contiguous_rows(spec.dtype, spec.layout))
    return fail(ErrorCode::invalid_argument, "{} {}: elements of a row are {} bytes apart, want 4", what,
                to_string(spec.shape()), spec.layout.nb[0]);
  return {};
}

Result<> require_i32_vector(const TensorSpec& spec, std::string_view what, int64_t n) {
  if (spec.dtype != DType::i32)
    return fail(ErrorCode::invalid_argument, "{} is {}, want i32", what, info(spec.dtype).name);
  if (spec.shape().n_rows() != 1 || !has_contiguous_rows(spec.dtype, spec.layout))
    return fail(ErrorCode::invalid_argument, "{} {}: want a contiguous vector", what, to_string(spec.shape()));
  if (n >= 0 && spec.shape()[0] != n)
    return fail(ErrorCode::invalid_argument, "{} has {} entries, want {}", what, spec.shape()[0], n);
  return {};
}

Result<> require_i32_matrix(const TensorSpec& spec, std::string_view what) {
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
