#include "tessera/engine/step_cost.h"

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

ProductCost product_cost(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  const TensorSpec& weights = graph[node.sources[0]].spec;
  const bool has_experts = node.op == Op::mul_mat_experts;
  return {.macs = static_cast<double>(cost(graph, id).macs),
          .weight_bytes = static_cast<double>(has_experts ? to_size(used_expert_bytes(graph, node))
                                                          : span_bytes(weights.dtype, weights.layout)),
          .type = weights.dtype};
}

AttentionCost attention_cost(const Graph& graph, const Node& node) {
  const Shape& q = graph[node.sources[0]].spec.shape();  // [k_dim, n_heads, n_tokens]
  const int64_t latent_v = std::get<AttentionParams>(node.params).latent_v;
  AttentionCost cost{.macs_per_pair = static_cast<double>(latent_v * q[1])};
  for (const size_t side : {1u, 2u}) {
    if (node.sources[side] == kNoNode) continue;
    const TensorSpec& cache = graph[node.sources[side]].spec;  // [dim, tokens of a block, n_heads_kv, n_blocks]
    cost.macs_per_pair += static_cast<double>(cache.shape()[0] * q[1]);
    cost.kv_bytes_per_position += static_cast<double>(cache.layout.nb[1] * cache.shape()[2]);
  }
  return cost;
}

Arithmetic StepCost::arithmetic(ActivationPrecision activations) const {
  if (2 * int8_macs > macs) return product_arithmetic(DType::q8_0, activations);
  return product_arithmetic(2 * half_macs > macs ? DType::f16 : DType::f32, activations);
}

StepCost step_cost(const Graph& graph) {
  StepCost total;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph[id].op == Op::mul_mat || graph[id].op == Op::mul_mat_experts) {
      const ProductCost product = product_cost(graph, id);
      total.macs += product.macs;
      if (info(product.type).is_blocked()) total.int8_macs += product.macs;
      if (product.type == DType::f16 || product.type == DType::bf16) total.half_macs += product.macs;
      total.weight_bytes += product.weight_bytes;
    }
    if (graph[id].op != Op::paged_attention) continue;
    const AttentionCost attention = attention_cost(graph, graph[id]);
    total.macs_per_pair += attention.macs_per_pair;
    total.kv_bytes_per_position += attention.kv_bytes_per_position;
  }
  return total;
}

}  // namespace tessera
