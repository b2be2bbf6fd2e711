#include "tessera/engine/inspect.h"

#include <cstring>
#include <new>

#include "tessera/base/half.h"
#include "tessera/gguf/weight_name.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

template <class T, class Convert>
std::vector<float> converted(std::span<const std::byte> bytes, Convert convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

}  // namespace

std::optional<std::vector<float>> floats_of(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f32:
      return converted<float>(bytes, [](float x) { return x; });
    case DType::f16:
      return converted<uint16_t>(bytes, f16_to_f32);
    case DType::bf16:
      return converted<uint16_t>(bytes, bf16_to_f32);
    case DType::i32:
      return converted<int32_t>(bytes, [](int32_t x) { return static_cast<float>(x); });
    default:
      return std::nullopt;
  }
}

Result<std::vector<float>> read_values(const PreparedGraph& graph, NodeId id) try {
  const Tensor& tensor = graph.tensor(id);
  std::vector<std::byte> bytes(span_bytes(tensor.dtype, tensor.layout));
  TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
  auto values = floats_of(tensor.dtype, bytes);
  if (!values)
    return fail(ErrorCode::unsupported, "{} is {}, want f32, f16, bf16 or i32", label_of(graph.graph(), id),
                info(tensor.dtype).name);
  return std::move(*values);
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "no memory for the values of {}", label_of(graph.graph(), id));
}

std::string label_of(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  if (!node.name.empty()) return node.name;
  for (const NodeId source : node.inputs())
    if (source != kNoNode && graph[graph.storage(source)].op == Op::tensor) return graph[graph.storage(source)].name;
  return std::string(info(node.op).name);
}

std::vector<int> layers_of(const Graph& graph) {
  std::vector<int> layers;
  int current = -1;
  for (const Node& node : graph.nodes()) {
    for (const NodeId source : node.inputs()) {
      if (source == kNoNode) continue;
      const Node& storage = graph[graph.storage(source)];
      if (storage.op != Op::tensor) continue;
      const WeightName name = parse_weight_name(storage.name);
      if (storage.tensor->layer >= 0 || name.is_output() || name.is_token_table()) current = storage.tensor->layer;
    }
    const int own = node.op == Op::tensor ? node.tensor->layer : -1;
    layers.push_back(node.is_leaf() ? own : current);
  }
  return layers;
}

}  // namespace tessera
