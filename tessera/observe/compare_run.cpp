#include "tessera/observe/compare_run.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/eval/nmse.h"
#include "tessera/graph/op_info.h"

namespace tessera::observe {

namespace {

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

Result<std::vector<std::byte>> bytes_at(const Tensor& tensor) {
  std::vector<std::byte> bytes(span_bytes(tensor.dtype, tensor.layout));
  TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
  return bytes;
}

// True for nodes that compute into memory of their own.
bool makes_value(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  return node.is_work() && node.alias_of == kNoNode;
}

ComparedNode compared(const Graph& graph, NodeId id, std::span<const std::byte> want, std::span<const std::byte> got,
                      const std::string& step, int layer) {
  const DType dtype = graph[id].spec.dtype;
  const std::vector<float> a = *floats_of(dtype, want), b = *floats_of(dtype, got);
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return {.step = step,
          .node = id,
          .op = std::string(info(graph[id].op).name),
          .label = label_of(graph, id),
          .operation = describe(graph, id),
          .layer = layer,
          .nmse = nmse(a, b),
          .largest_difference = largest};
}

Result<> require_same_graphs(const Graph& a, const Graph& b) {
  bool same = a.size() == b.size();
  for (NodeId id = 0; same && id < a.size(); ++id)
    same = a[id].op == b[id].op && a[id].spec.shape() == b[id].spec.shape() && a[id].spec.dtype == b[id].spec.dtype &&
           std::ranges::equal(a[id].inputs(), b[id].inputs());
  if (!same)
    return fail(ErrorCode::mismatch, "the two sides have different graphs, of {} and {} nodes", a.size(), b.size());
  return {};
}

}  // namespace

double nmse(std::span<const float> want, std::span<const float> got) {
  eval::SquaredError sum;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto a = static_cast<double>(want[i]), b = static_cast<double>(got[i]);
    const bool is_same = a == b || (std::isnan(a) && std::isnan(b));  // router scores may be minus infinity
    if (!is_same) sum.add(a, b);
    if (is_same && std::isfinite(a)) sum.power += a * a;
  }
  if (sum.error == 0) return 0;
  return std::isfinite(sum.nmse()) ? sum.nmse() : HUGE_VAL;
}

bool is_compared(const Graph& graph, NodeId id) {
  return makes_value(graph, id) && is_float(graph[id].spec.dtype) && !graph[id].spec.shape().empty();
}

ValueWatch StepRecorder::watch() {
  return {.wants = makes_value, .see = [this](const PreparedGraph& graph, NodeId id) { return see(graph, id); }};
}

// Copies the inputs at the first value of a step, before any input has been overwritten.
Result<> StepRecorder::see(const PreparedGraph& prepared, NodeId id) {
  Step& step = steps_.back();
  const Graph& graph = prepared.graph();
  if (step.graph.size() == 0) {
    step.graph = graph;
    for (NodeId input = 0; input < graph.size(); ++input)
      if (graph[input].op == Op::input) {
        TESSERA_ASSIGN(step.bytes[input], bytes_at(prepared.tensor(input)));
      }
  }
  TESSERA_ASSIGN(step.bytes[id], bytes_at(prepared.tensor(id)));
  return {};
}

Result<std::vector<ComparedNode>> compare_recorded(const StepRecorder::Step& want, const StepRecorder::Step& got,
                                                   const std::string& name) {
  TESSERA_TRY(require_same_graphs(want.graph, got.graph));
  const std::vector<int> layers = layers_of(want.graph);
  std::vector<ComparedNode> nodes;
  for (const auto& [id, bytes] : want.bytes)
    if (is_compared(want.graph, id))
      nodes.push_back(compared(want.graph, id, bytes, got.bytes.at(id), name, layers[to_size(id)]));
  return nodes;
}

Result<std::vector<ComparedNode>> compare_each(const StepRecorder::Step& want, const Session& session,
                                               const Schedule& schedule,
                                               std::span<const std::unique_ptr<Backend>> backends,
                                               const std::string& name) {
  if (session.is_recurrent())
    return fail(ErrorCode::unsupported,
                "running each node on the same operands is not supported with recurrent layers, whose states change "
                "in place");
  const Graph& graph = want.graph;
  const std::vector<int> layers = layers_of(graph);
  std::vector<NodeId> given(to_size(schedule.graph.size()), kNoNode);
  for (NodeId id = 0; id < graph.size(); ++id) given[to_size(schedule.id_of(id))] = id;
  // Returns the bytes of a node of the schedule: the tensor's own bytes, or the recorded value, also for a copy.
  const auto operand = [&](NodeId id) -> Result<std::vector<std::byte>> {
    if (schedule.graph[id].op == Op::copy) id = schedule.graph[id].sources[0];
    if (schedule.graph[id].op == Op::tensor) return bytes_at(*schedule.graph[id].tensor);
    const auto found = want.bytes.find(given[to_size(id)]);
    if (found == want.bytes.end())
      return fail(ErrorCode::internal, "no value of {} was recorded", label_of(schedule.graph, id));
    return found->second;
  };
  std::vector<ComparedNode> nodes;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!graph[id].is_work()) continue;
    const NodeId scheduled = schedule.id_of(id);
    const int device = schedule.assignment.device(scheduled);
    std::vector<NodeId> ids;
    Graph one = slice_graph(schedule, {.device = device, .begin = scheduled, .end = scheduled + 1, .copies = {}}, ids);
    Executor executor(*backends[to_size(device)]);
    TESSERA_TRY(executor.reserve({&one, 1}));
    TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(one)));
    NodeId result = kNoNode;
    for (NodeId local = 0; local < prepared->graph().size(); ++local) {
      const NodeId from = ids[to_size(local)];
      if (from == scheduled) result = local;
      if (prepared->graph()[local].op != Op::input) continue;
      const Tensor& tensor = prepared->tensor(local);
      TESSERA_ASSIGN(const std::vector<std::byte> bytes, operand(from));
      TESSERA_TRY(tensor.buffer->set(tensor, 0, bytes));
    }
    TESSERA_TRY(executor.run(*prepared));
    if (!is_compared(graph, id)) continue;
    TESSERA_ASSIGN(const std::vector<std::byte> got, bytes_at(prepared->tensor(result)));
    nodes.push_back(compared(graph, id, want.bytes.at(id), got, name, layers[to_size(id)]));
  }
  return nodes;
}

}  // namespace tessera::observe
