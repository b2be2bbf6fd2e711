#include "tessera/graph/ops/reshaping.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// Strides whose dimensions nest: then no two elements lie in one place.
bool is_injective(const Layout& layout) {
  std::array<int, kMaxRank> order{0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](int i) { return layout.nb[static_cast<size_t>(i)]; });
  int64_t reach = 0;  // bytes that the dimensions so far span
  for (const int i : order) {
    if (layout.shape[i] == 1) continue;
    const int64_t stride = layout.nb[static_cast<size_t>(i)];
    const auto step = checked_mul(stride, layout.shape[i] - 1);
    const auto end = step ? checked_add(reach, *step) : std::nullopt;
    if (!end || stride < reach + static_cast<int64_t>(sizeof(float))) return false;
    reach = *end;
  }
  return true;
}

Result<TensorSpec> repeated(Operands x, const OpParams& params, bool grows) {
  TESSERA_TRY(want_operands(x, 1, 1));
  const auto* p = std::get_if<ShapeParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  for (int i = 0; i < kMaxRank; ++i) {
    const int64_t from = x[0]->shape()[i], to = p->shape[i];
    if (from != to && (grows ? from : to) != 1)
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, from, to);
  }
  return contiguous(DType::f32, p->shape);
}

}  // namespace

Result<TensorSpec> infer_transpose(Operands x, const OpParams&) {
  TESSERA_TRY(want_operands(x, 1, 1));
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  const Shape& shape = x[0]->shape();
  return contiguous(DType::f32, {shape[1], shape[0], shape[2], shape[3]});
}

Result<TensorSpec> infer_sum_to(Operands x, const OpParams& params) { return repeated(x, params, false); }
Result<TensorSpec> infer_repeat(Operands x, const OpParams& params) { return repeated(x, params, true); }

Result<TensorSpec> infer_place(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 1, 1));
  const auto* p = std::get_if<PlaceParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "x"));
  TESSERA_ASSIGN(const TensorSpec result, contiguous(DType::f32, p->shape));
  if (p->at.shape != x[0]->shape())
    return fail(ErrorCode::invalid_argument, "x is {}, its place {}", to_string(x[0]->shape()), to_string(p->at.shape));
  if (!has_contiguous_rows(DType::f32, p->at) || !is_injective(p->at) || p->offset % sizeof(float) != 0)
    return fail(ErrorCode::invalid_argument, "places are not distinct rows of floats");
  const auto end = checked_add(p->offset, span_bytes(DType::f32, p->at));
  if (!end || *end > span_bytes(DType::f32, result.layout))
    return fail(ErrorCode::invalid_argument, "the place reaches outside {}", to_string(p->shape));
  return result;
}

Result<TensorSpec> infer_scatter_rows(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 2, 2));
  const auto* p = std::get_if<ScatterRowsParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  TESSERA_TRY(want_f32_rows(*x[0], "rows"));
  const Shape& rows = x[0]->shape();
  if (rows[2] != 1 || rows[3] != 1) return fail(ErrorCode::invalid_argument, "rows have more than two dimensions");
  TESSERA_TRY(want_i32_vector(*x[1], "ids", rows[1]));
  if (p->n_rows < 0) return fail(ErrorCode::invalid_argument, "{} rows", p->n_rows);
  return contiguous(DType::f32, {rows[0], p->n_rows});
}

void gradient_view(Gradient& g) {
  const TensorSpec of = g.spec(0);
  if (g.node().alias_offset == 0 && is_contiguous(of.dtype, of.layout) &&
      is_contiguous(g.node().spec.dtype, g.node().spec.layout) &&
      of.shape().n_elements() == g.node().spec.shape().n_elements())
    return g.give(0, g.b.reshape(g.dy(), of.shape()));
  if (is_contiguous(of.dtype, of.layout))
    return g.give(0, g.b.place(g.dy(), {of.shape(), g.node().spec.layout, g.node().alias_offset}));
  // The view's strides are those of its source's memory, gaps and all: so it is placed there.
  const auto n = static_cast<int64_t>(span_bytes(of.dtype, of.layout) / sizeof(float));
  const Value spread = g.b.place(g.dy(), {Shape{n}, g.node().spec.layout, g.node().alias_offset});
  g.give(0, g.b.cast(g.b.view(spread, of.layout, 0), DType::f32));
}

void gradient_transpose(Gradient& g) { g.give(0, g.b.transpose(g.dy())); }
void gradient_sum_to(Gradient& g) { g.give(0, g.b.repeat(g.dy(), g.spec(0).shape())); }
void gradient_repeat(Gradient& g) { g.give(0, g.b.sum_to(g.dy(), g.spec(0).shape())); }

void gradient_place(Gradient& g) {
  const auto& [shape, at, offset] = std::get<PlaceParams>(g.node().params);
  g.give(0, g.b.cast(g.b.view(g.dy(), at, offset), DType::f32));
}

void gradient_scatter_rows(Gradient& g) { g.give(0, g.b.get_rows(g.dy(), g.in(1))); }

}  // namespace tessera
