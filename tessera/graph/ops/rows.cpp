#include "tessera/graph/ops/rows.h"

#include <cmath>

#include "tessera/graph/op_def.h"

namespace tessera {

Value RowOps::cast(Value x, DType dtype) { return add_op(*this, Op::cast, {x}, CastParams{dtype}); }

Value RowOps::get_rows(Value table, Value ids) {
  GraphBuilder& b = builder_of(*this);
  Value rows = add_op(*this, Op::get_rows, {table, ids});
  if (b.spec(rows).dtype == DType::i32) return rows;
  for (const ActiveAdapter& adapter : b.adapters()) {
    const LowRank* term = b.find_term(adapter.terms->rows, table);
    if (term == nullptr) continue;
    const Value low = add_op(*this, Op::get_rows, {b.tensor(*term->down), ids});
    const Value delta = add_op(*this, Op::mul_mat, {b.tensor(*term->up), low});
    rows = add_scaled(rows, delta, b.scales_of(adapter, b.spec(rows).shape()[1]), term->factor);
  }
  return rows;
}

Value RowOps::scatter_rows(Value rows, Value ids, int64_t n_rows) {
  return add_op(*this, Op::scatter_rows, {rows, ids}, ScatterRowsParams{n_rows});
}

Value RowOps::add_scaled(Value y, Value d, Value scales, float factor) {
  return add_op(*this, Op::add_scaled, {y, d, scales}, AddScaledParams{.factor = factor});
}

Value RowOps::add_scaled(Value y, Value d, Value scales, float factor, ExpertRoutes routes) {
  return add_op(*this, Op::add_scaled, {y, d, scales, routes.value()},
                AddScaledParams{.factor = factor, .n_experts = routes.n_experts()});
}

namespace {

Result<TensorSpec> infer_cast(Operands x, const CastParams& p) {
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  return contiguous(p.dtype, x[0]->shape());
}

Result<TensorSpec> infer_get_rows(Operands x) {
  if (x[0]->shape()[2] != 1 || x[0]->shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "the table has more than two dimensions");
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "the table's rows are not contiguous");
  TESSERA_TRY(require_i32_vector(*x[1], "ids", -1));
  const DType dtype = x[0]->dtype == DType::i32 ? DType::i32 : DType::f32;
  return contiguous(dtype, {x[0]->shape()[0], x[1]->shape()[0]});
}

Result<TensorSpec> infer_scatter_rows(Operands x, const ScatterRowsParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "rows"));
  const Shape& rows = x[0]->shape();
  if (rows[2] != 1 || rows[3] != 1) return fail(ErrorCode::invalid_argument, "rows have more than two dimensions");
  TESSERA_TRY(require_i32_vector(*x[1], "ids", rows[1]));
  if (p.n_rows < 0) return fail(ErrorCode::invalid_argument, "{} rows", p.n_rows);
  return contiguous(DType::f32, {rows[0], p.n_rows});
}

Result<TensorSpec> infer_add_scaled(Operands x, const AddScaledParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "y"));
  TESSERA_TRY(require_f32_rows(*x[1], "d"));
  TESSERA_TRY(require_f32_rows(*x[2], "scales"));
  if (!std::isfinite(p.factor)) return fail(ErrorCode::invalid_argument, "factor {} is not finite", p.factor);
  const Shape &y = x[0]->shape(), &d = x[1]->shape(), &scales = x[2]->shape();
  if (y[2] != 1 || y[3] != 1) return fail(ErrorCode::invalid_argument, "y {}, want a matrix", to_string(y));
  if (d != y && d != Shape{y[0]})
    return fail(ErrorCode::invalid_argument, "d {}, want y's shape or one of its rows", to_string(d));
  if (scales != Shape{1, scales[1]})
    return fail(ErrorCode::invalid_argument, "scales {}, want one a row", to_string(scales));
  const bool has_routes = x.size() == 4 && x[3] != nullptr;
  if (!has_routes && scales[1] != y[1])
    return fail(ErrorCode::invalid_argument, "{} scales for {} rows", scales[1], y[1]);
  if (has_routes) {
    TESSERA_TRY(require_i32_vector(*x[3], "routes", p.n_experts + 1 + 2 * y[1]));
    const bool fits = scales[1] == 0 ? y[1] == 0 : y[1] % scales[1] == 0;
    if (!fits) return fail(ErrorCode::invalid_argument, "{} scales for {} pairs", scales[1], y[1]);
  }
  return contiguous(DType::f32, y);
}

void gradient_cast(Gradient& g) { g.give(0, g.dy()); }

void gradient_get_rows(Gradient& g) {
  if (g.spec(0).dtype == DType::i32) return g.fail_with(ErrorCode::unsupported, "the table has integers");
  if (g.wants(0)) g.give(0, g.b.scatter_rows(g.dy(), g.in(1), g.spec(0).shape()[1]));
}

void gradient_scatter_rows(Gradient& g) { g.give(0, g.b.get_rows(g.dy(), g.in(1))); }

void gradient_add_scaled(Gradient& g) {
  g.give(0, g.dy());
  const auto& params = g.params<AddScaledParams>();
  if (!g.wants(1) && !g.wants(2)) return;
  // With routes, the scale of a row is that of its token.
  const auto by_row = [&](Value scales) {
    return params.n_experts == 0 ? scales : g.b.expert_spread(scales, Value(), g.routes(3));
  };
  const auto by_token = [&](Value d) { return params.n_experts == 0 ? d : g.b.expert_sum(d, Value(), g.routes(3)); };
  if (g.wants(1)) g.give_sum(1, g.b.mul(g.dy(), g.b.scale(by_row(g.in(2)), params.factor)));
  if (g.wants(2)) g.give(2, by_token(g.b.scale(g.b.row_sum(g.b.mul(g.dy(), g.in(1))), params.factor)));
}

}  // namespace

const OpDef op_defs::cast = {.n_operands = 1,
                             .infer = shape_rule<infer_cast>,
                             .gradient = gradient_cast,
                             .cost = cost_of_memory,
                             .in_place = kNoOperand,
                             .writes = kNoOperand};
const OpDef op_defs::get_rows = {.n_operands = 2,
                                 .infer = shape_rule<infer_get_rows>,
                                 .gradient = gradient_get_rows,
                                 .cost = cost_of_copied_rows,
                                 .in_place = kNoOperand,
                                 .writes = kNoOperand};
const OpDef op_defs::scatter_rows = {.n_operands = 2,
                                     .infer = shape_rule<infer_scatter_rows>,
                                     .gradient = gradient_scatter_rows,
                                     .cost = cost_of_memory,
                                     .in_place = kNoOperand,
                                     .writes = kNoOperand};
const OpDef op_defs::add_scaled = {.n_operands = {3, 4},
                                   .infer = shape_rule<infer_add_scaled>,
                                   .gradient = gradient_add_scaled,
                                   .cost = cost_of_memory,
                                   .in_place = operands(0),
                                   .writes = kNoOperand};

}  // namespace tessera
