#include "tessera/graph/ops/recurrent.h"

#include <cmath>
#include <initializer_list>

#include "tessera/base/checked.h"
#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// That state holds the product of `extents` per slot, and runs are those of n_tokens.
Result<> want_memory(const TensorSpec& state, std::initializer_list<int64_t> extents, const TensorSpec& runs,
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
  TESSERA_TRY(want_i32_vector(runs, "runs", -1));
  const int64_t rest = runs.shape()[0] - n_tokens;
  if (rest < 0 || rest % kRunFields != 0)
    return fail(ErrorCode::invalid_argument, "runs of {} entries are not those of {} tokens", runs.shape()[0],
                n_tokens);
  return {};
}

Result<> want_shape(const TensorSpec& spec, std::string_view what, const Shape& shape) {
  TESSERA_TRY(want_f32_rows(spec, what));
  if (spec.shape() != shape)
    return fail(ErrorCode::invalid_argument, "{} is {}, want {}", what, to_string(spec.shape()), to_string(shape));
  return {};
}

Result<> want_matrix(const TensorSpec& spec, std::string_view what) {
  TESSERA_TRY(want_f32_rows(spec, what));
  if (spec.shape()[2] != 1 || spec.shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "{} has more than two dimensions", what);
  return {};
}

// One f32 row as the result of each of x's.
Result<TensorSpec> unary(Operands x) {
  TESSERA_TRY(want_operands(x, 1, 1));
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  return contiguous(DType::f32, x[0]->shape());
}

}  // namespace

Result<TensorSpec> infer_softplus(Operands x, const OpParams&) { return unary(x); }
Result<TensorSpec> infer_exp(Operands x, const OpParams&) { return unary(x); }

Result<TensorSpec> infer_l2_norm(Operands x, const OpParams& params) {
  const auto* p = std::get_if<L2NormParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  if (!std::isfinite(p->eps) || p->eps <= 0)
    return fail(ErrorCode::invalid_argument, "eps {}, want a finite value > 0", p->eps);
  return unary(x);
}

Result<TensorSpec> infer_row_sum(Operands x, const OpParams&) {
  TESSERA_TRY(unary(x));
  const Shape& shape = x[0]->shape();
  return contiguous(DType::f32, {1, shape[1], shape[2], shape[3]});
}

Result<TensorSpec> infer_causal_conv(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 4, 5));
  TESSERA_TRY(want_matrix(*x[0], "x"));
  const int64_t n = x[0]->shape()[0], t = x[0]->shape()[1], width = x[1]->shape()[0];
  if (width < 2 || width > kMaxConvWidth)
    return fail(ErrorCode::invalid_argument, "convolution of {} tokens, want 2 to {}", width, kMaxConvWidth);
  TESSERA_TRY(want_shape(*x[1], "weight", {width, n}));
  if (!is_contiguous(x[1]->dtype, x[1]->layout)) return fail(ErrorCode::invalid_argument, "weight is not contiguous");
  TESSERA_TRY(want_memory(*x[2], {n, width - 1}, *x[3], t));
  if (x.size() == 5 && x[4] != nullptr) TESSERA_TRY(want_shape(*x[4], "bias", {n}));
  return contiguous(DType::f32, {n, t});
}

Result<TensorSpec> infer_token_shift(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 3, 3));
  TESSERA_TRY(want_matrix(*x[0], "x"));
  TESSERA_TRY(want_memory(*x[1], {x[0]->shape()[0]}, *x[2], x[0]->shape()[1]));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_selective_scan(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 8, 8));
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  const int64_t p = x[0]->shape()[0], h = x[0]->shape()[1], t = x[0]->shape()[2];
  const int64_t n = x[3]->shape()[0], g = x[3]->shape()[1];
  if (x[0]->shape()[3] != 1) return fail(ErrorCode::invalid_argument, "x has more than three dimensions");
  if (p < 1 || h < 1 || n < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (g < 1 || h % g != 0) return fail(ErrorCode::invalid_argument, "{} heads for {} groups, want a multiple", h, g);
  TESSERA_TRY(want_shape(*x[1], "dt", {h, t}));
  TESSERA_TRY(want_shape(*x[2], "a", {x[2]->shape()[0] == 1 ? 1 : n, h}));
  if (!is_contiguous(x[2]->dtype, x[2]->layout)) return fail(ErrorCode::invalid_argument, "a is not contiguous");
  TESSERA_TRY(want_shape(*x[3], "b", {n, g, t}));
  TESSERA_TRY(want_shape(*x[4], "c", {n, g, t}));
  TESSERA_TRY(want_shape(*x[5], "d", {h}));
  TESSERA_TRY(want_memory(*x[6], {n, p, h}, *x[7], t));
  return contiguous(DType::f32, x[0]->shape());
}

Result<TensorSpec> infer_delta_net(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 7, 7));
  const auto* p = std::get_if<DeltaNetParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  if (!std::isfinite(p->scale)) return fail(ErrorCode::invalid_argument, "scale {} is not finite", p->scale);
  const Shape &q = x[0]->shape(), &v = x[2]->shape();
  if (q[3] != 1 || v[3] != 1) return fail(ErrorCode::invalid_argument, "q or v has more than three dimensions");
  if (q[0] < 1 || v[0] < 1 || q[1] < 1 || v[1] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (v[1] % q[1] != 0)
    return fail(ErrorCode::invalid_argument, "{} value heads for {} key heads, want a multiple", v[1], q[1]);
  TESSERA_TRY(want_f32_rows(*x[0], "q"));
  TESSERA_TRY(want_shape(*x[1], "k", q));
  TESSERA_TRY(want_shape(*x[2], "v", {v[0], v[1], q[2]}));
  TESSERA_TRY(want_shape(*x[3], "decay", {v[1], v[2]}));
  TESSERA_TRY(want_shape(*x[4], "beta", {v[1], v[2]}));
  TESSERA_TRY(want_memory(*x[5], {q[0], v[0], v[1]}, *x[6], v[2]));
  return contiguous(DType::f32, v);
}

Result<TensorSpec> infer_rwkv7(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 8, 8));
  TESSERA_TRY(want_f32_rows(*x[0], "r"));
  const Shape& r = x[0]->shape();
  if (r[3] != 1) return fail(ErrorCode::invalid_argument, "r has more than three dimensions");
  if (r[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  constexpr std::string_view kNames[] = {"r", "decay", "k", "v", "a", "b"};
  for (size_t i = 1; i < std::size(kNames); ++i) TESSERA_TRY(want_shape(*x[i], kNames[i], r));
  TESSERA_TRY(want_memory(*x[6], {r[0], r[0], r[1]}, *x[7], r[2]));
  return contiguous(DType::f32, r);
}

namespace {

// A result that holds the gradients of the first n operands, one after another.
Result<TensorSpec> all_gradients(Operands x, size_t n) {
  std::optional<int64_t> n_elements = 0;
  for (const TensorSpec* spec : x.first(n))
    n_elements = n_elements ? checked_add(*n_elements, spec->shape().n_elements()) : std::nullopt;
  if (!n_elements) return fail(ErrorCode::limit, "the size of all gradients overflows");
  return contiguous(DType::f32, {*n_elements});
}

// The forward rule on all operands but the last, dy, which has the shape of its result.
Result<> want_gradient(Result<TensorSpec> (*forward)(Operands, const OpParams&), Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, x.size(), kMaxSources));
  if (x.empty()) return fail(ErrorCode::invalid_argument, "dy is missing");
  TESSERA_ASSIGN(const TensorSpec y, forward(x.first(x.size() - 1), params));
  return want_shape(*x.back(), "dy", y.shape());
}

// Gives the first n operands their parts of `all`.
void give_parts(Gradient& g, Value all, size_t n) {
  size_t offset = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto layout = contiguous_layout(DType::f32, g.spec(i).shape());
    if (!layout) return g.fail_with(ErrorCode::internal, layout.error().message());
    g.give(i, g.b.view(all, *layout, offset));
    offset += static_cast<size_t>(g.spec(i).shape().n_elements()) * sizeof(float);
  }
}

}  // namespace

Result<TensorSpec> infer_causal_conv_grad(Operands x, const OpParams& params) {
  TESSERA_TRY(want_gradient(infer_causal_conv, x, params));
  return all_gradients(x, 2);
}

// dy stands in the place of x, of whose values nothing depends.
Result<TensorSpec> infer_token_shift_grad(Operands x, const OpParams& params) { return infer_token_shift(x, params); }

Result<TensorSpec> infer_selective_scan_grad(Operands x, const OpParams& params) {
  TESSERA_TRY(want_gradient(infer_selective_scan, x, params));
  return all_gradients(x, 6);
}

Result<TensorSpec> infer_delta_net_grad(Operands x, const OpParams& params) {
  TESSERA_TRY(want_gradient(infer_delta_net, x, params));
  return all_gradients(x, 5);
}

Result<TensorSpec> infer_rwkv7_grad(Operands x, const OpParams& params) {
  TESSERA_TRY(want_gradient(infer_rwkv7, x, params));
  return all_gradients(x, 6);
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
  const auto& params = std::get<DeltaNetParams>(g.node().params);
  give_parts(g, g.b.delta_net_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.in(6), g.dy(), params), 5);
}

void gradient_rwkv7(Gradient& g) {
  give_parts(g, g.b.rwkv7_grad(g.in(0), g.in(1), g.in(2), g.in(3), g.in(4), g.in(5), g.in(6), g.in(7), g.dy()), 6);
}

void gradient_softplus(Gradient& g) { g.give(0, g.b.mul(g.dy(), g.b.sigmoid(g.in(0)))); }
void gradient_exp(Gradient& g) { g.give(0, g.b.mul(g.dy(), g.out())); }
void gradient_l2_norm(Gradient& g) {
  g.give(0, g.b.l2_norm_grad(g.in(0), g.dy(), std::get<L2NormParams>(g.node().params).eps));
}
void gradient_row_sum(Gradient& g) { g.give(0, g.b.repeat(g.dy(), g.spec(0).shape())); }

}  // namespace tessera
