#include "tessera/graph/ops/recurrent.h"

#include <cmath>
#include <initializer_list>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_def.h"
#include "tessera/graph/op_info.h"

namespace tessera {

Value RecurrentOps::causal_conv(Value x, Value weight, Value bias, Value state, Value segments) {
  return add_op(*this, Op::causal_conv, {x, weight, state, segments, bias});
}

Value RecurrentOps::token_shift(Value x, Value state, Value segments) {
  return add_op(*this, Op::token_shift, {x, state, segments});
}

Value RecurrentOps::selective_scan(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value segments) {
  return add_op(*this, Op::selective_scan, {x, dt, a, b, c, d, state, segments});
}

Value RecurrentOps::delta_net(Value q, Value k, Value v, Value decay, Value beta, Value state, Value segments,
                              const DeltaNetParams& params) {
  return add_op(*this, Op::delta_net, {q, k, v, decay, beta, state, segments}, params);
}

Value RecurrentOps::rwkv7(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value segments,
                          const Rwkv7Params& params) {
  return add_op(*this, Op::rwkv7, {r, decay, k, v, a, b, state, segments}, params);
}

Value RecurrentOps::causal_conv_grad(Value x, Value weight, Value state, Value segments, Value dy) {
  return add_op(*this, Op::causal_conv_grad, {x, weight, state, segments, dy});
}

Value RecurrentOps::token_shift_grad(Value dy, Value state, Value segments) {
  return add_op(*this, Op::token_shift_grad, {dy, state, segments});
}

Value RecurrentOps::selective_scan_grad(Value x, Value dt, Value a, Value b, Value c, Value d, Value state,
                                        Value segments, Value dy) {
  return add_op(*this, Op::selective_scan_grad, {x, dt, a, b, c, d, state, segments, dy});
}

Value RecurrentOps::delta_net_grad(Value q, Value k, Value v, Value decay, Value beta, Value state, Value segments,
                                   Value dy, const DeltaNetParams& params) {
  return add_op(*this, Op::delta_net_grad, {q, k, v, decay, beta, state, segments, dy}, params);
}

Value RecurrentOps::rwkv7_grad(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value segments,
                               Value dy, const Rwkv7Params& params) {
  return add_op(*this, Op::rwkv7_grad, {r, decay, k, v, a, b, state, segments, dy}, params);
}

namespace {

// Checks that state has the product of `extents` elements per slot, and that segments belong to n_tokens.
Result<> require_memory(const TensorSpec& state, std::initializer_list<int64_t> extents, const TensorSpec& segments,
                        int64_t n_tokens) {
  std::optional<int64_t> n_elements = 1;
  for (const int64_t extent : extents) n_elements = n_elements ? checked_mul(*n_elements, extent) : std::nullopt;
  if (!n_elements) return fail(ErrorCode::limit, "the size of a state overflows");
  if (state.dtype != DType::f32 || !is_contiguous(state.dtype, state.layout) || state.shape()[2] != 1 ||
      state.shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "state {} {}: want a contiguous f32 matrix", info(state.dtype).name,
                to_string(state.shape()));
  if (state.shape()[0] != *n_elements)
    return fail(ErrorCode::invalid_argument, "state has {} elements, want {}", state.shape()[0], *n_elements);
  TESSERA_TRY(require_i32_vector(segments, "segments", -1));
  const int64_t rest = segments.shape()[0] - n_tokens;
  if (rest < 0 || rest % kSegmentFields != 0)
    return fail(ErrorCode::invalid_argument, "segments of {} entries are not those of {} tokens", segments.shape()[0],
                n_tokens);
  return {};
}

Result<> require_shape(const TensorSpec& spec, std::string_view what, const Shape& shape) {
  TESSERA_TRY(require_f32_rows(spec, what));
  if (spec.shape() != shape)
    return fail(ErrorCode::invalid_argument, "{} is {}, want {}", what, to_string(spec.shape()), to_string(shape));
  return {};
}

Result<> require_matrix(const TensorSpec& spec, std::string_view what) {
  TESSERA_TRY(require_f32_rows(spec, what));
  if (spec.shape()[2] != 1 || spec.shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "{} has more than two dimensions", what);
  return {};
}

Result<TensorSpec> infer_causal_conv(Operands x) {
  TESSERA_TRY(require_matrix(*x[0], "x"));
  const int64_t n = x[0]->shape()[0], t = x[0]->shape()[1], width = x[1]->shape()[0];
  if (width < 2 || width > kMaxConvWidth)
    return fail(ErrorCode::invalid_argument, "convolution of {} tokens, want 2 to {}", width, kMaxConvWidth);
  TESSERA_TRY(require_shape(*x[1], "weight", {width, n}));
  if (!is_contiguous(x[1]->dtype, x[1]->layout)) return fail(ErrorCode::invalid_argument, "weight is not contiguous");
  TESSERA_TRY(require_memory(*x[2], {n, width - 1}, *x[3], t));
  if (x.size() == 5 && x[4] != nullptr) TESSERA_TRY(require_shape(*x[4], "bias", {n}));
  return contiguous(DType::f32, {n, t});
}

Result<TensorSpec> infer_token_shift(Operands x) {
  TESSERA_TRY(require_matrix(*x[0], "x"));
  TESSERA_TRY(require_memory(*x[1], {x[0]->shape()[0]}, *x[2], x[0]->shape()[1]));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_selective_scan(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  const int64_t p = x[0]->shape()[0], h = x[0]->shape()[1], t = x[0]->shape()[2];
  const int64_t n = x[3]->shape()[0], g = x[3]->shape()[1];
  if (x[0]->shape()[3] != 1) return fail(ErrorCode::invalid_argument, "x has more than three dimensions");
  if (p < 1 || h < 1 || n < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (g < 1 || h % g != 0) return fail(ErrorCode::invalid_argument, "{} heads for {} groups, want a multiple", h, g);
  TESSERA_TRY(require_shape(*x[1], "dt", {h, t}));
  TESSERA_TRY(require_shape(*x[2], "a", {x[2]->shape()[0] == 1 ? 1 : n, h}));
  if (!is_contiguous(x[2]->dtype, x[2]->layout)) return fail(ErrorCode::invalid_argument, "a is not contiguous");
  TESSERA_TRY(require_shape(*x[3], "b", {n, g, t}));
  TESSERA_TRY(require_shape(*x[4], "c", {n, g, t}));
  TESSERA_TRY(require_shape(*x[5], "d", {h}));
  TESSERA_TRY(require_memory(*x[6], {n, p, h}, *x[7], t));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_delta_net(Operands x, const DeltaNetParams& p) {
  if (!std::isfinite(p.scale)) return fail(ErrorCode::invalid_argument, "scale {} is not finite", p.scale);
  const Shape &q = x[0]->shape(), &v = x[2]->shape();
  if (q[3] != 1 || v[3] != 1) return fail(ErrorCode::invalid_argument, "q or v has more than three dimensions");
  if (q[0] < 1 || v[0] < 1 || q[1] < 1 || v[1] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (v[1] % q[1] != 0)
    return fail(ErrorCode::invalid_argument, "{} value heads for {} key heads, want a multiple", v[1], q[1]);
  TESSERA_TRY(require_f32_rows(*x[0], "q"));
  TESSERA_TRY(require_shape(*x[1], "k", q));
  TESSERA_TRY(require_shape(*x[2], "v", {v[0], v[1], q[2]}));
  TESSERA_TRY(require_shape(*x[3], "decay", {v[1], v[2]}));
  TESSERA_TRY(require_shape(*x[4], "beta", {v[1], v[2]}));
  TESSERA_TRY(require_memory(*x[5], {q[0], v[0], v[1]}, *x[6], v[2]));
  return contiguous(DType::f32, v);
}

Result<TensorSpec> infer_rwkv7(Operands x, const Rwkv7Params&) {
  TESSERA_TRY(require_f32_rows(*x[0], "r"));
  const Shape& r = x[0]->shape();
  if (r[3] != 1) return fail(ErrorCode::invalid_argument, "r has more than three dimensions");
  if (r[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  constexpr std::string_view kNames[] = {"r", "decay", "k", "v", "a", "b"};
  for (size_t i = 1; i < std::size(kNames); ++i) TESSERA_TRY(require_shape(*x[i], kNames[i], r));
  TESSERA_TRY(require_memory(*x[6], {r[0], r[0], r[1]}, *x[7], r[2]));
  return contiguous(DType::f32, r);
}

// A result that contains the gradients of the first n operands, one after another.
Result<TensorSpec> all_gradients(Operands x, size_t n) {
  std::optional<int64_t> n_elements = 0;
  for (const TensorSpec* spec : x.first(n))
    n_elements = n_elements ? checked_add(*n_elements, spec->shape().n_elements()) : std::nullopt;
  if (!n_elements) return fail(ErrorCode::limit, "the size of all gradients overflows");
  return contiguous(DType::f32, {*n_elements});
}

// Fails unless the last operand, dy, has the shape of the result of `forward` on the other operands.
Result<> require_gradient(Op forward, Operands x, const OpParams& params) {
  TESSERA_ASSIGN(const TensorSpec y, infer(forward, x.first(x.size() - 1), params));
  if (x.back() == nullptr) return fail(ErrorCode::invalid_argument, "dy is missing");
  return require_shape(*x.back(), "dy", y.shape());
}

// Gives each of the first n operands its part of `all`.
void give_parts(Gradient& g, Value all, size_t n) {
  size_t offset = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto layout = contiguous_layout(DType::f32, g.spec(i).shape());
    if (!layout) return g.fail_with(ErrorCode::internal, layout.error().message());
    g.give(i, g.b.view(all, *layout, offset));
    offset += to_size(g.spec(i).shape().n_elements()) * sizeof(float);
  }
}

template <Op kForward, size_t kGradients>
Result<TensorSpec> infer_gradients(Operands x, const OpParams& params) {
  TESSERA_TRY(require_gradient(kForward, x, params));
  return all_gradients(x, kGradients);
}

void gradient_causal_conv(Gradient& g) {
  if (g.wants(4)) g.give_sum(4, g.dy());
  if (g.wants(0) || g.wants(1)) give_parts(g, g.b.causal_conv_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.dy()), 2);
}

void gradient_token_shift(Gradient& g) { g.give(0, g.b.token_shift_grad(g.dy(), g.in(1), g.in(2))); }

void gradient_selective_scan(Gradient& g) {
  give_parts(g, g.b.selective_scan_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.in(6), g.in(7), g.dy()),
             6);
}

void gradient_delta_net(Gradient& g) {
  const auto& params = g.params<DeltaNetParams>();
  give_parts(g, g.b.delta_net_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.in(6), g.dy(), params), 5);
}

void gradient_rwkv7(Gradient& g) {
  const auto& params = g.params<Rwkv7Params>();
  give_parts(g, g.b.rwkv7_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.in(6), g.in(7), g.dy(), params),
             6);
}

// A recurrent step reads one slot of the state and writes one, at the least; the actual number depends on the segments.
// Each element of a slot's row takes part in `per_element` multiply-adds for each element of the result.
Cost cost_of_recurrence(const Graph& graph, const Node& node, size_t state, int64_t per_element) {
  Cost cost{.macs = per_element * node.spec.shape().n_elements(), .bytes = result_bytes(node)};
  for (size_t i = 0; i < node.n_sources; ++i)
    cost.bytes += i == state ? 2 * graph[node.sources[i]].spec.layout.nb[1] : operand_bytes(graph, node, i);
  return cost;
}

// The same for a gradient, whose last operand has the shape of the forward result.
Cost cost_of_recurrence_gradient(const Graph& graph, const Node& node, size_t state, int64_t per_element) {
  Cost cost = cost_of_recurrence(graph, node, state, 0);
  cost.macs = per_element * graph[node.inputs().back()].spec.shape().n_elements();
  return cost;
}

// The first extent of an operand.
int64_t row_length(const Graph& graph, const Node& node, size_t i) { return graph[node.sources[i]].spec.shape()[0]; }

Cost cost_of_causal_conv(const Graph& graph, const Node& node) {
  return cost_of_recurrence(graph, node, 2, row_length(graph, node, 1));
}

Cost cost_of_token_shift(const Graph& graph, const Node& node) { return cost_of_recurrence(graph, node, 1, 0); }

// The parts of the cost: input, state, output.
Cost cost_of_selective_scan(const Graph& graph, const Node& node) {
  return cost_of_recurrence(graph, node, 6, 3 * row_length(graph, node, 3));
}

// The parts of the cost: decay, recall, update, output.
Cost cost_of_delta_net(const Graph& graph, const Node& node) {
  return cost_of_recurrence(graph, node, 5, 4 * row_length(graph, node, 0));
}

// The parts of the cost: decay, the removed value, its removal, the new value, output.
Cost cost_of_rwkv7(const Graph& graph, const Node& node) {
  return cost_of_recurrence(graph, node, 6, 5 * node.spec.shape()[0]);
}

Cost cost_of_causal_conv_grad(const Graph& graph, const Node& node) {
  return cost_of_recurrence_gradient(graph, node, 2, 2 * row_length(graph, node, 1));
}

Cost cost_of_token_shift_grad(const Graph& graph, const Node& node) {
  return cost_of_recurrence_gradient(graph, node, 1, 0);
}

// The states are computed twice, then their gradients.
Cost cost_of_selective_scan_grad(const Graph& graph, const Node& node) {
  return cost_of_recurrence_gradient(graph, node, 6, 10 * row_length(graph, node, 3));
}

Cost cost_of_delta_net_grad(const Graph& graph, const Node& node) {
  return cost_of_recurrence_gradient(graph, node, 5, 15 * row_length(graph, node, 0));
}

Cost cost_of_rwkv7_grad(const Graph& graph, const Node& node) {
  return cost_of_recurrence_gradient(graph, node, 6, 19 * row_length(graph, node, 0));
}

template <auto kInfer>
consteval OpDef forward(OperandCount n_operands, void (*gradient)(Gradient&), Cost (*cost)(const Graph&, const Node&),
                        OperandSet state) {
  return {.n_operands = n_operands,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost,
          .in_place = kNoOperand,
          .writes = state};
}

template <auto kInfer>
consteval OpDef backward(size_t n_operands, Cost (*cost)(const Graph&, const Node&)) {
  return {.n_operands = n_operands,
          .infer = kInfer,
          .gradient = kForwardOnly,
          .cost = cost,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::causal_conv =
    forward<infer_causal_conv>({4, 5}, gradient_causal_conv, cost_of_causal_conv, operands(2));
const OpDef op_defs::token_shift =
    forward<infer_token_shift>(3, gradient_token_shift, cost_of_token_shift, operands(1));
const OpDef op_defs::selective_scan =
    forward<infer_selective_scan>(8, gradient_selective_scan, cost_of_selective_scan, operands(6));
const OpDef op_defs::delta_net = forward<infer_delta_net>(7, gradient_delta_net, cost_of_delta_net, operands(5));
const OpDef op_defs::rwkv7 = forward<infer_rwkv7>(8, gradient_rwkv7, cost_of_rwkv7, operands(6));
const OpDef op_defs::causal_conv_grad = backward<infer_gradients<Op::causal_conv, 2>>(5, cost_of_causal_conv_grad);
// dy replaces x, whose values do not affect the gradient.
const OpDef op_defs::token_shift_grad = backward<shape_rule<infer_token_shift>>(3, cost_of_token_shift_grad);
const OpDef op_defs::selective_scan_grad =
    backward<infer_gradients<Op::selective_scan, 6>>(9, cost_of_selective_scan_grad);
const OpDef op_defs::delta_net_grad = backward<infer_gradients<Op::delta_net, 5>>(8, cost_of_delta_net_grad);
const OpDef op_defs::rwkv7_grad = backward<infer_gradients<Op::rwkv7, 6>>(9, cost_of_rwkv7_grad);

}  // namespace tessera
