#include "tessera/engine/step_cost.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/base/partition.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// The positions to which token q of a sequence can attend, whose last token of the step is before `end`.
Range keys_of(const AttentionReach& reach, int64_t q, int64_t end) {
  Range keys{0, reach.causal ? q + 1 : end};
  if (reach.window <= 0) return keys;
  keys.begin = reach.chunked ? q - q % reach.window : std::max<int64_t>(q - reach.window + 1, 0);
  if (!reach.causal) keys.end = std::min(end, q + reach.window);
  return keys;
}

}  // namespace

ProductCost product_cost(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  const TensorSpec& weights = graph[node.sources[0]].spec;
  const bool has_experts = node.op == Op::mul_mat_experts;
  return {.macs = static_cast<double>(cost(graph, id).macs),
          .weight_bytes = static_cast<double>(has_experts ? to_size(used_expert_bytes(graph, node))
                                                          : span_bytes(weights.dtype, weights.layout)),
          .type = weights.dtype};
}

double AttentionReach::pairs(int64_t position, int64_t n) const {
  double sum = 0;
  for (int64_t q = position; q < position + n; ++q) {
    const Range keys = keys_of(*this, q, position + n);
    sum += static_cast<double>(n_chosen > 0 ? std::min(keys.size(), n_chosen) : keys.size());
  }
  return sum;
}

// The keys of neighbouring tokens overlap or follow one another.
double AttentionReach::positions(int64_t position, int64_t n) const {
  if (n < 1) return 0;
  const int64_t end = position + n;
  const int64_t all = keys_of(*this, end - 1, end).end - keys_of(*this, position, end).begin;
  return static_cast<double>(n_chosen > 0 ? std::min(all, n_chosen) : all);
}

AttentionCost attention_cost(const Graph& graph, const Node& node) {
  const Shape& q = graph[node.sources[0]].spec.shape();  // [k_dim, n_heads, n_tokens]
  AttentionCost cost;
  const auto add_cache = [&](NodeId source) {
    if (source == kNoNode) return;
    const TensorSpec& cache = graph[source].spec;  // [dim, tokens of a block, n_heads_kv, n_blocks]
    cost.macs_per_pair += static_cast<double>(cache.shape()[0] * q[1]);
    cost.kv_bytes_per_position += static_cast<double>(cache.layout.nb[1] * cache.shape()[2]);
  };
  add_cache(node.sources[1]);
  if (node.op == Op::choose_keys) return cost;
  add_cache(node.sources[2]);
  const auto& params = std::get<AttentionParams>(node.params);
  cost.macs_per_pair += static_cast<double>(params.latent_v * q[1]);
  cost.reach = {.causal = params.causal, .window = params.window, .chunked = params.chunked};
  NodeId chosen = node.sources[9];
  if (chosen == kNoNode) return cost;
  if (graph[chosen].op == Op::copy) chosen = graph[chosen].sources[0];
  if (const auto* choice = std::get_if<KeyChoiceParams>(&graph[chosen].params))
    cost.reach.n_chosen = choice->n_chosen * choice->unit;
  return cost;
}

double StepCost::macs_at(int64_t position, int64_t n) const {
  double sum = macs;
  for (const AttentionCost& part : attention) sum += part.macs_at(position, n);
  return sum;
}

double StepCost::bytes_at(int64_t position, int64_t n) const {
  double sum = weight_bytes;
  for (const AttentionCost& part : attention) sum += part.bytes_at(position, n);
  return sum;
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
    if (graph[id].op != Op::paged_attention && graph[id].op != Op::choose_keys) continue;
    const AttentionCost attention = attention_cost(graph, graph[id]);
    total.macs_per_pair += attention.macs_per_pair;
    total.kv_bytes_per_position += attention.kv_bytes_per_position;
    const auto same = std::ranges::find(total.attention, attention.reach, &AttentionCost::reach);
    if (same == total.attention.end()) {
      total.attention.push_back(attention);
      continue;
    }
    same->macs_per_pair += attention.macs_per_pair;
    same->kv_bytes_per_position += attention.kv_bytes_per_position;
  }
  return total;
}

}  // namespace tessera
