#include "tessera/graph/ops/experts.h"

#include <cmath>
#include <limits>

#include "tessera/graph/op_def.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Value ExpertOps::top_k(Value scores, int64_t k, int64_t divisor) {
  return add_op(*this, Op::top_k, {scores}, TopKParams{k, divisor});
}

Value ExpertOps::top_groups(Value scores, const TopGroupsParams& params) {
  return add_op(*this, Op::top_groups, {scores}, params);
}

Value ExpertOps::expert_weights(Value scores, Value ids, const ExpertWeightsParams& params) {
  return add_op(*this, Op::expert_weights, {scores, ids}, params);
}

ExpertRoutes ExpertOps::expert_routes(Value ids, int64_t n_experts) {
  return {add_op(*this, Op::expert_routes, {ids}, ExpertRoutesParams{n_experts}), n_experts,
          builder_of(*this).spec(ids).shape()[1]};
}

Value ExpertOps::mul_mat_experts(Value weights, Value x, ExpertRoutes routes, ExpertInput input) {
  const auto multiply = [&](Value w, Value rows, ExpertInput from) {
    return add_op(*this, Op::mul_mat_experts, {w, rows, routes.value()},
                  ExpertProductParams{.n_experts = routes.n_experts(), .input = from});
  };
  GraphBuilder& b = builder_of(*this);
  Value product = multiply(weights, x, input);
  for (const ActiveAdapter& adapter : b.adapters()) {
    const LowRank* term = b.find_term(adapter.terms->products, weights);
    if (term == nullptr) continue;
    const Value low = multiply(b.tensor(*term->down), x, input);
    const Value delta = multiply(b.tensor(*term->up), low, ExpertInput::routed);
    product = b.add_scaled(product, delta, b.scales_of(adapter, routes.n_tokens()), term->factor, routes);
  }
  return product;
}

Value ExpertOps::expert_rows(Value rows, ExpertRoutes routes) {
  return add_op(*this, Op::expert_rows, {rows, routes.value()}, ExpertRoutesParams{routes.n_experts()});
}

Value ExpertOps::expert_sum(Value y, Value weights, ExpertRoutes routes) {
  return add_op(*this, Op::expert_sum, {y, weights, routes.value()},
                ExpertRoutesParams{.n_experts = routes.n_experts(), .n_tokens = routes.n_tokens()});
}

Value ExpertOps::expert_outer(Value x, Value y, ExpertRoutes routes, ExpertInput input) {
  return add_op(*this, Op::expert_outer, {x, y, routes.value()},
                ExpertProductParams{.n_experts = routes.n_experts(), .input = input});
}

Value ExpertOps::expert_totals(Value y, ExpertRoutes routes) {
  return add_op(*this, Op::expert_totals, {y, routes.value()}, ExpertRoutesParams{routes.n_experts()});
}

Value ExpertOps::expert_spread(Value x, Value weights, ExpertRoutes routes) {
  return add_op(*this, Op::expert_spread, {x, weights, routes.value()}, ExpertRoutesParams{routes.n_experts()});
}

Value ExpertOps::expert_dot(Value y, Value x, ExpertRoutes routes) {
  return add_op(*this, Op::expert_dot, {y, x, routes.value()}, ExpertRoutesParams{routes.n_experts()});
}

Value ExpertOps::expert_weights_grad(Value scores, Value ids, Value dy, const ExpertWeightsParams& params) {
  return add_op(*this, Op::expert_weights_grad, {scores, ids, dy}, params);
}

namespace {

constexpr int64_t kMaxExperts = int64_t{1} << 16;
constexpr int64_t kMaxPairs = int64_t{1} << 30;  // pair numbers are i32

bool is_matrix(const Shape& shape) { return shape[2] == 1 && shape[3] == 1; }

/// The number of pairs of routes among n_experts, given n_given matrices. Errors: not such a vector, or another number
/// of experts.
Result<int64_t> n_pairs_of(const TensorSpec& routes, int64_t n_experts, int64_t n_given) {
  TESSERA_TRY(require_i32_vector(routes, "routes", -1));
  if (n_given != n_experts)
    return fail(ErrorCode::invalid_argument, "weights of {} experts, routes of {}", n_given, n_experts);
  const int64_t rest = routes.shape()[0] - n_experts - 1;
  if (rest < 0 || rest % 2 != 0)
    return fail(ErrorCode::invalid_argument, "routes of {} entries are not those of {} experts", routes.shape()[0],
                n_experts);
  return rest / 2;
}

/// Fails unless x of n_rows matches the rows that the pairs read.
Result<> require_rows_of_pairs(int64_t n_rows, int64_t n_pairs, ExpertInput input) {
  const bool fits = input == ExpertInput::routed ? n_rows == n_pairs
                    : n_rows == 0                ? n_pairs == 0
                                                 : n_pairs % n_rows == 0;
  if (!fits) return fail(ErrorCode::invalid_argument, "x of {} rows does not fit {} pairs", n_rows, n_pairs);
  return {};
}

/// Fails unless the pairs belong to n_tokens, with as many weights if there are any.
Result<> require_slots(const TensorSpec* weights, int64_t n_pairs, int64_t n_tokens) {
  if (n_tokens < 0) return fail(ErrorCode::invalid_argument, "{} tokens", n_tokens);
  if (weights == nullptr) return require_rows_of_pairs(n_tokens, n_pairs, ExpertInput::tokens);
  TESSERA_TRY(require_f32_rows(*weights, "weights"));
  const Shape& shape = weights->shape();
  if (!is_matrix(shape) || shape[0] < 1 || shape[1] != n_tokens || shape.n_elements() != n_pairs)
    return fail(ErrorCode::invalid_argument, "weights {} for {} pairs of {} tokens", to_string(shape), n_pairs,
                n_tokens);
  return {};
}

Result<TensorSpec> infer_top_k(Operands x, const TopKParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "scores"));
  const Shape& scores = x[0]->shape();
  if (!is_matrix(scores)) return fail(ErrorCode::invalid_argument, "scores have more than two dimensions");
  if (p.k < 1 || p.k > scores[0]) return fail(ErrorCode::invalid_argument, "k {}, want 1 to {}", p.k, scores[0]);
  if (p.divisor < 1 || p.divisor > kMaxExperts)
    return fail(ErrorCode::invalid_argument, "divisor {}, want 1 to {}", p.divisor, kMaxExperts);
  return contiguous(DType::i32, {p.k, scores[1]});
}

Result<TensorSpec> infer_top_groups(Operands x, const TopGroupsParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "scores"));
  const Shape& scores = x[0]->shape();
  if (scores[2] != 1 || scores[3] != 1)
    return fail(ErrorCode::invalid_argument, "scores {}, want a matrix", to_string(scores));
  if (p.n_groups < 1 || p.n_groups > kMaxExpertGroups || p.n_used < 1 || p.n_used > p.n_groups || scores[0] < 1 ||
      scores[0] % p.n_groups != 0)
    return fail(ErrorCode::invalid_argument, "{} of {} groups of {} experts", p.n_used, p.n_groups, scores[0]);
  return contiguous(DType::f32, scores);
}

Result<TensorSpec> infer_expert_weights(Operands x, const ExpertWeightsParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "scores"));
  TESSERA_TRY(require_i32_matrix(*x[1], "ids"));
  if (!std::isfinite(p.scale)) return fail(ErrorCode::invalid_argument, "scale {} is not finite", p.scale);
  const Shape &scores = x[0]->shape(), &ids = x[1]->shape();
  if (!is_matrix(scores) || scores[1] != ids[1])
    return fail(ErrorCode::invalid_argument, "want scores [n, t] and ids [k, t]");
  return contiguous(DType::f32, ids);
}

Result<TensorSpec> infer_expert_routes(Operands x, const ExpertRoutesParams& p) {
  TESSERA_TRY(require_i32_matrix(*x[0], "ids"));
  if (p.n_experts < 1 || p.n_experts > kMaxExperts)
    return fail(ErrorCode::invalid_argument, "{} experts, want 1 to {}", p.n_experts, kMaxExperts);
  const int64_t n_pairs = x[0]->shape().n_elements();
  if (n_pairs > kMaxPairs) return fail(ErrorCode::limit, "{} pairs, limit {}", n_pairs, kMaxPairs);
  return contiguous(DType::i32, {p.n_experts + 1 + 2 * n_pairs});
}

Result<TensorSpec> infer_mul_mat_experts(Operands x, const ExpertProductParams& p) {
  TESSERA_TRY(require_f32_rows(*x[1], "x"));
  const Shape &w = x[0]->shape(), &a = x[1]->shape();
  if (!is_contiguous(x[0]->dtype, x[0]->layout)) return fail(ErrorCode::invalid_argument, "weights are not contiguous");
  if (w[3] != 1 || !is_matrix(a))
    return fail(ErrorCode::invalid_argument, "want weights [k, n, n_experts] and x [k, t]");
  if (w[0] != a[0]) return fail(ErrorCode::invalid_argument, "weights have {} columns, x has {} rows", w[0], a[0]);
  if (w[0] < 1) return fail(ErrorCode::invalid_argument, "rows are empty");
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[2], p.n_experts, w[2]));
  TESSERA_TRY(require_rows_of_pairs(a[1], n_pairs, p.input));
  return contiguous(DType::f32, {w[1], n_pairs});
}

Result<TensorSpec> infer_expert_rows(Operands x, const ExpertRoutesParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "rows"));
  const Shape& rows = x[0]->shape();
  if (!is_matrix(rows)) return fail(ErrorCode::invalid_argument, "rows have more than two dimensions");
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[1], p.n_experts, rows[1]));
  return contiguous(DType::f32, {rows[0], n_pairs});
}

Result<TensorSpec> infer_expert_sum(Operands x, const ExpertRoutesParams& p) {
  if (x.size() < 3 || x[2] == nullptr) return fail(ErrorCode::invalid_argument, "routes are missing");
  TESSERA_TRY(require_f32_rows(*x[0], "y"));
  const Shape& y = x[0]->shape();
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[2], p.n_experts, p.n_experts));
  const int64_t n_tokens = x[1] == nullptr ? p.n_tokens : x[1]->shape()[1];
  if (!is_matrix(y) || y[1] != n_pairs)
    return fail(ErrorCode::invalid_argument, "want y [n, n_pairs], weights [n_used, t] and their routes");
  TESSERA_TRY(require_slots(x[1], n_pairs, n_tokens));
  return contiguous(DType::f32, {y[0], n_tokens});
}

Result<TensorSpec> infer_expert_outer(Operands x, const ExpertProductParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  TESSERA_TRY(require_f32_rows(*x[1], "y"));
  const Shape &rows = x[0]->shape(), &y = x[1]->shape();
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[2], p.n_experts, p.n_experts));
  if (!is_matrix(rows) || !is_matrix(y) || y[1] != n_pairs)
    return fail(ErrorCode::invalid_argument, "want x [k, t], y [n, n_pairs] and their routes");
  TESSERA_TRY(require_rows_of_pairs(rows[1], n_pairs, p.input));
  return contiguous(DType::f32, {rows[0], y[0], p.n_experts});
}

Result<TensorSpec> infer_expert_totals(Operands x, const ExpertRoutesParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "y"));
  const Shape& y = x[0]->shape();
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[1], p.n_experts, p.n_experts));
  if (!is_matrix(y) || y[1] != n_pairs) return fail(ErrorCode::invalid_argument, "want y [n, n_pairs] and its routes");
  return contiguous(DType::f32, {y[0], p.n_experts});
}

Result<TensorSpec> infer_expert_spread(Operands x, const ExpertRoutesParams& p) {
  if (x.size() < 3 || x[2] == nullptr) return fail(ErrorCode::invalid_argument, "routes are missing");
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  const Shape& rows = x[0]->shape();
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[2], p.n_experts, p.n_experts));
  if (!is_matrix(rows)) return fail(ErrorCode::invalid_argument, "x has more than two dimensions");
  TESSERA_TRY(require_slots(x[1], n_pairs, rows[1]));
  return contiguous(DType::f32, {rows[0], n_pairs});
}

Result<TensorSpec> infer_expert_dot(Operands x, const ExpertRoutesParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "y"));
  TESSERA_TRY(require_f32_rows(*x[1], "x"));
  const Shape &y = x[0]->shape(), &rows = x[1]->shape();
  TESSERA_ASSIGN(const int64_t n_pairs, n_pairs_of(*x[2], p.n_experts, p.n_experts));
  if (!is_matrix(y) || !is_matrix(rows) || y != Shape{rows[0], n_pairs})
    return fail(ErrorCode::invalid_argument, "want y [n, n_pairs], x [n, t] and their routes");
  TESSERA_TRY(require_slots(nullptr, n_pairs, rows[1]));
  return contiguous(DType::f32, {rows[1] == 0 ? 0 : n_pairs / rows[1], rows[1]});
}

Result<TensorSpec> infer_expert_weights_grad(Operands x, const ExpertWeightsParams& params) {
  TESSERA_ASSIGN(const TensorSpec weights, infer_expert_weights(x.first(2), params));
  TESSERA_TRY(require_f32_rows(*x[2], "dy"));
  if (x[2]->shape() != weights.shape())
    return fail(ErrorCode::invalid_argument, "dy {}, want {}", to_string(x[2]->shape()), to_string(weights.shape()));
  return contiguous(DType::f32, x[0]->shape());
}

// Excluded scores are -inf. The gradient of a clamp to finite numbers is 0 for them.
void gradient_top_groups(Gradient& g) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  g.give(0, g.b.clamp_grad(g.out(), g.dy(), -kLargest, kLargest));
}

void gradient_expert_weights(Gradient& g) {
  g.give(0, g.b.expert_weights_grad(g.in(0), g.in(1), g.dy(), g.params<ExpertWeightsParams>()));
}

// Like the gradient of mul_mat, for each expert.
void gradient_mul_mat_experts(Gradient& g) {
  const ExpertInput input = g.params<ExpertProductParams>().input;
  const ExpertRoutes routes = g.routes(2);
  if (g.wants(1)) {
    const Value dx = g.b.mul_mat_experts(g.b.transpose(g.in(0)), g.dy(), routes, ExpertInput::routed);
    g.give(1, input == ExpertInput::routed ? dx : g.b.expert_sum(dx, Value(), routes));
  }
  if (g.wants(0)) g.give(0, g.b.expert_outer(g.in(1), g.dy(), routes, input));
}

void gradient_expert_rows(Gradient& g) { g.give(0, g.b.expert_totals(g.dy(), g.routes(1))); }

void gradient_expert_sum(Gradient& g) {
  const ExpertRoutes routes = g.routes(2);
  if (g.wants(0)) g.give(0, g.b.expert_spread(g.dy(), g.in(1), routes));
  if (g.wants(1)) g.give(1, g.b.expert_dot(g.in(0), g.dy(), routes));
}

Cost cost_of_mul_mat_experts(const Graph& graph, const Node& node) {
  const int64_t k = graph[node.sources[0]].spec.shape()[0];
  return {.macs = k * node.spec.shape().n_elements(),
          .bytes = result_bytes(node) + used_expert_bytes(graph, node) + operand_bytes(graph, node, 1) +
                   operand_bytes(graph, node, 2)};
}

// The product x times y of each pair.
Cost cost_of_expert_outer(const Graph& graph, const Node& node) {
  Cost cost = cost_of_memory(graph, node);
  cost.macs = node.spec.shape()[0] * graph[node.sources[1]].spec.shape().n_elements();
  return cost;
}

template <auto kInfer>
consteval OpDef routing(OperandCount n_operands, void (*gradient)(Gradient&), Cost (*cost)(const Graph&, const Node&)) {
  return {.n_operands = n_operands,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

int64_t used_expert_bytes(const Graph& graph, const Node& node) {
  const TensorSpec& weights = graph[node.sources[0]].spec;
  return weights.layout.nb[2] * std::min(weights.shape()[2], node.spec.shape()[1]);
}

const OpDef op_defs::top_k = routing<infer_top_k>(1, gradient_of_constant, cost_of_memory);
const OpDef op_defs::top_groups = {.n_operands = 1,
                                   .infer = shape_rule<infer_top_groups>,
                                   .gradient = gradient_top_groups,
                                   .cost = cost_of_memory,
                                   .in_place = operands(0),
                                   .writes = kNoOperand};
const OpDef op_defs::expert_weights = routing<infer_expert_weights>(2, gradient_expert_weights, cost_of_memory);
const OpDef op_defs::expert_routes = routing<infer_expert_routes>(1, gradient_of_constant, cost_of_memory);
const OpDef op_defs::mul_mat_experts =
    routing<infer_mul_mat_experts>(3, gradient_mul_mat_experts, cost_of_mul_mat_experts);
const OpDef op_defs::expert_rows = routing<infer_expert_rows>(2, gradient_expert_rows, cost_of_copied_rows);
const OpDef op_defs::expert_sum = routing<infer_expert_sum>({1, 3}, gradient_expert_sum, cost_of_each_element);
const OpDef op_defs::expert_outer = routing<infer_expert_outer>(3, kForwardOnly, cost_of_expert_outer);
const OpDef op_defs::expert_totals = routing<infer_expert_totals>(2, kForwardOnly, cost_of_each_element);
const OpDef op_defs::expert_spread = routing<infer_expert_spread>({1, 3}, kForwardOnly, cost_of_memory);
const OpDef op_defs::expert_dot = routing<infer_expert_dot>(3, kForwardOnly, cost_of_each_element);
const OpDef op_defs::expert_weights_grad = routing<infer_expert_weights_grad>(3, kForwardOnly, cost_of_memory);

}  // namespace tessera
