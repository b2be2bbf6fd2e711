#include "tessera/graph/ops/rope.h"

#include <cmath>

#include "tessera/graph/op_def.h"

namespace tessera {

Value RopeOps::temperature(Value positions, const TemperatureParams& params) {
  return add_op(*this, Op::temperature, {positions}, params);
}

Value RopeOps::rope_table(Value positions, Value freq_factors, const RopeTableParams& params) {
  return add_op(*this, Op::rope_table, {positions, freq_factors}, params);
}

Value RopeOps::rope(Value x, Value table, RopePairs pairs, bool inverse) {
  return add_op(*this, Op::rope, {x, table}, RopeParams{pairs, inverse});
}

void RopeTableParams::list(ParamList& params) const {
  params.integer("n_rot", n_rot);
  params.number("freq_base", freq_base);
  params.number("freq_scale", freq_scale);
  params.number("yarn_ext", yarn_ext);
  params.number("yarn_low", yarn_low);
  params.number("yarn_high", yarn_high);
  params.number("magnitude", magnitude);
}

namespace {

Result<TensorSpec> infer_rope_table(Operands x, const RopeTableParams& p) {
  TESSERA_TRY(require_i32_vector(*x[0], "positions", -1));
  if (p.n_rot < 2 || p.n_rot % 2 != 0)
    return fail(ErrorCode::invalid_argument, "n_rot {}, want an even number from 2 on", p.n_rot);
  for (const float f : {p.freq_base, p.freq_scale, p.magnitude})
    if (!std::isfinite(f) || f <= 0)
      return fail(ErrorCode::invalid_argument, "rope parameter {}, want a finite value > 0", f);
  for (const float f : {p.yarn_ext, p.yarn_low, p.yarn_high})
    if (!std::isfinite(f) || f < 0)
      return fail(ErrorCode::invalid_argument, "YaRN parameter {}, want a finite value >= 0", f);
  if (x.size() == 2 && x[1] != nullptr) {
    TESSERA_TRY(require_f32_rows(*x[1], "frequency factors"));
    if (x[1]->shape()[0] != p.n_rot / 2 || x[1]->shape().n_rows() != 1)
      return fail(ErrorCode::invalid_argument, "frequency factors {}, want [{}]", to_string(x[1]->shape()),
                  p.n_rot / 2);
  }
  return contiguous(DType::f32, {p.n_rot, x[0]->shape()[0]});
}

Result<TensorSpec> infer_rope(Operands x, const RopeParams&) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  TESSERA_TRY(require_f32_rows(*x[1], "table"));
  const Shape &a = x[0]->shape(), &table = x[1]->shape();
  if (a[3] != 1 || table[1] != a[2] || table.n_rows() != table[1] || table[0] > a[0] || table[0] % 2 != 0)
    return fail(ErrorCode::invalid_argument, "want x [dim, n_heads, n_tokens] and table [n_rot <= dim, n_tokens]");
  return contiguous(DType::f32, a);
}

// The transpose of a rotation is its inverse. The table's magnitude is a common factor and stays the same.
void gradient_rope(Gradient& g) {
  const auto& [pairs, inverse] = g.params<RopeParams>();
  g.give(0, g.b.rope(g.dy(), g.in(1), pairs, !inverse));
}

Result<TensorSpec> infer_temperature(Operands x, const TemperatureParams& p) {
  TESSERA_TRY(require_i32_vector(*x[0], "positions", -1));
  if (!std::isfinite(p.beta)) return fail(ErrorCode::invalid_argument, "beta {} is not finite", p.beta);
  if (p.offset < 0 || p.offset > INT32_MAX)
    return fail(ErrorCode::invalid_argument, "offset of positions {}, want 0 to {}", p.offset, INT32_MAX);
  if (p.length < 1) return fail(ErrorCode::invalid_argument, "steps of {} positions, want 1 or more", p.length);
  return contiguous(DType::f32, {1, 1, x[0]->shape()[0]});
}

template <auto kInfer>
consteval OpDef of_positions(OperandCount n_operands) {
  return {.n_operands = n_operands,
          .infer = shape_rule<kInfer>,
          .gradient = gradient_of_constant,
          .cost = cost_of_memory,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::temperature = of_positions<infer_temperature>(1);
const OpDef op_defs::rope_table = of_positions<infer_rope_table>({1, 2});
const OpDef op_defs::rope = {.n_operands = 2,
                             .infer = shape_rule<infer_rope>,
                             .gradient = gradient_rope,
                             .cost = cost_of_memory,
                             .in_place = operands(0),
                             .writes = kNoOperand};

}  // namespace tessera
