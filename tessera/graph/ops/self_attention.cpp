#include "tessera/graph/ops/self_attention.h"

#include "tessera/base/index.h"
#include "tessera/graph/op_def.h"

namespace tessera {

Value SelfAttentionOps::self_attention(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                                       const AttentionParams& params) {
  return add_op(*this, Op::self_attention, {q, k, v, positions, sequences, sinks}, params);
}

Value SelfAttentionOps::self_attention_grad(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                                            Value dy, const AttentionParams& params) {
  return add_op(*this, Op::self_attention_grad, {q, k, v, positions, sequences, sinks, dy}, params);
}

// Each operand has fewer than 2^61 elements, so no sum overflows.
SelfAttentionOffsets self_attention_offsets(const Shape& q, const Shape& k, const Shape* v, bool has_sinks) {
  SelfAttentionOffsets at;
  at.dk = q.n_elements();
  at.dv = at.dk + k.n_elements();
  at.dsinks = at.dv + (v == nullptr ? 0 : v->n_elements());
  at.end = at.dsinks + (has_sinks ? q[1] : 0);
  return at;
}

namespace {

// Operands of both operations: q, k, v or none, positions, sequences, sinks or none.
constexpr size_t kQ = 0, kK = 1, kV = 2, kPositions = 3, kSequences = 4, kSinks = 5, kDy = 6;

/// Elements of a V vector, which is an operand or part of K.
Result<int64_t> self_v_dim(Operands x, const AttentionParams& p) {
  const Shape& k = x[kK]->shape();
  if (x[kV] == nullptr) {
    if (p.latent_v < 1 || p.latent_v > k[0])
      return fail(ErrorCode::invalid_argument, "no V, and {} of K's {} elements as V", p.latent_v, k[0]);
    return p.latent_v;
  }
  const Shape& v = x[kV]->shape();
  if (p.latent_v != 0) return fail(ErrorCode::invalid_argument, "V beside a V that is part of K");
  TESSERA_TRY(require_f32_rows(*x[kV], "V"));
  if (v != Shape{v[0], k[1], k[2]})
    return fail(ErrorCode::invalid_argument, "V {} beside K {}", to_string(v), to_string(k));
  if (v[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  return v[0];
}

/// Checks the operands and returns the shape of the outputs.
Result<Shape> check(Operands x, const AttentionParams& p, size_t n_operands) {
  TESSERA_TRY(require_attention_params(p));
  if (x.size() < n_operands || x[kPositions] == nullptr || x[kSequences] == nullptr)
    return fail(ErrorCode::invalid_argument, "positions or sequences are missing");
  TESSERA_TRY(require_f32_rows(*x[kQ], "q"));
  TESSERA_TRY(require_f32_rows(*x[kK], "K"));
  const Shape &q = x[kQ]->shape(), &k = x[kK]->shape();
  if (q[3] != 1 || k != Shape{q[0], k[1], q[2]})
    return fail(ErrorCode::invalid_argument, "K {} for q {}", to_string(k), to_string(q));
  if (k[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (k[1] < 1 || q[1] < 1 || q[1] % k[1] != 0)
    return fail(ErrorCode::invalid_argument, "{} query heads for {} KV heads, want a multiple", q[1], k[1]);
  TESSERA_ASSIGN(const int64_t v_dim, self_v_dim(x, p));
  TESSERA_TRY(require_i32_vector(*x[kPositions], "positions", q[2]));
  TESSERA_TRY(require_i32_vector(*x[kSequences], "sequences", q[2]));
  if (x[kSinks] != nullptr) {
    TESSERA_TRY(require_f32_rows(*x[kSinks], "sinks"));
    if (x[kSinks]->shape() != Shape{q[1]})
      return fail(ErrorCode::invalid_argument, "sinks {}, want one per head, {}", to_string(x[kSinks]->shape()), q[1]);
  }
  return Shape{v_dim, q[1], q[2]};
}

Result<TensorSpec> infer_self_attention(Operands x, const AttentionParams& p) {
  TESSERA_ASSIGN(const Shape out, check(x, p, 6));
  return contiguous(DType::f32, out);
}

Result<TensorSpec> infer_self_attention_grad(Operands x, const AttentionParams& p) {
  TESSERA_ASSIGN(const Shape out, check(x, p, 7));
  if (x[kDy] == nullptr) return fail(ErrorCode::invalid_argument, "dy is missing");
  TESSERA_TRY(require_f32_rows(*x[kDy], "dy"));
  if (x[kDy]->shape() != out)
    return fail(ErrorCode::invalid_argument, "dy {}, want {}", to_string(x[kDy]->shape()), to_string(out));
  const Shape* v = x[kV] == nullptr ? nullptr : &x[kV]->shape();
  return contiguous(DType::f32, {self_attention_offsets(x[kQ]->shape(), x[kK]->shape(), v, x[kSinks] != nullptr).end});
}

void gradient_self_attention(Gradient& g) {
  const auto& params = g.params<AttentionParams>();
  const auto is_present = [&](size_t i) { return g.node().sources[i] != kNoNode; };
  const Value all = g.b.self_attention_grad(g.in(kQ), g.in(kK), g.in(kV), g.in(kPositions), g.in(kSequences),
                                            g.in(kSinks), g.dy(), params);
  const Shape v = is_present(kV) ? g.spec(kV).shape() : Shape{};
  const SelfAttentionOffsets at =
      self_attention_offsets(g.spec(kQ).shape(), g.spec(kK).shape(), is_present(kV) ? &v : nullptr, is_present(kSinks));
  const auto give = [&](size_t i, int64_t first) {
    if (!is_present(i)) return;
    const auto layout = contiguous_layout(DType::f32, g.spec(i).shape());
    if (!layout) return g.fail_with(ErrorCode::internal, layout.error().message());
    g.give(i, g.b.view(all, *layout, to_size(first) * sizeof(float)));
  };
  give(kQ, 0);
  give(kK, at.dk);
  give(kV, at.dv);
  give(kSinks, at.dsinks);
}

// The number of pairs of tokens over all heads, as if all tokens belonged to one sequence.
int64_t pairs_of_tokens(const Graph& graph, const Node& node) {
  const Shape& q = graph[node.sources[kQ]].spec.shape();
  const auto& params = std::get<AttentionParams>(node.params);
  return q[1] * (params.causal ? q[2] * (q[2] + 1) / 2 : q[2] * q[2]);
}

// The cost of scores and of sums of values.
Cost cost_of_self_attention(const Graph& graph, const Node& node) {
  Cost cost = cost_of_memory(graph, node);
  cost.macs = pairs_of_tokens(graph, node) * (graph[node.sources[kQ]].spec.shape()[0] + node.spec.shape()[0]);
  return cost;
}

// The cost of scores, dq and dk, plus the cost of the gradients of the weights and dv.
Cost cost_of_self_attention_grad(const Graph& graph, const Node& node) {
  Cost cost = cost_of_memory(graph, node);
  const Shape &q = graph[node.sources[kQ]].spec.shape(), &dy = graph[node.sources[kDy]].spec.shape();
  cost.macs = pairs_of_tokens(graph, node) * (3 * q[0] + 2 * dy[0]);
  return cost;
}

}  // namespace

const OpDef op_defs::self_attention = {.n_operands = {2, 6},
                                       .infer = shape_rule<infer_self_attention>,
                                       .gradient = gradient_self_attention,
                                       .cost = cost_of_self_attention,
                                       .in_place = kNoOperand,
                                       .writes = kNoOperand};
const OpDef op_defs::self_attention_grad = {.n_operands = {2, 7},
                                            .infer = shape_rule<infer_self_attention_grad>,
                                            .gradient = kForwardOnly,
                                            .cost = cost_of_self_attention_grad,
                                            .in_place = kNoOperand,
                                            .writes = kNoOperand};

}  // namespace tessera
