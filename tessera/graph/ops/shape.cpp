#include "tessera/graph/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_def.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// The builder, or null if it adds no more nodes or x is absent. An absent x is an error.
GraphBuilder* builder_with(ShapeOps& ops, Value x, std::string_view what) {
  GraphBuilder& b = builder_of(ops);
  if (b.adds_nothing()) return nullptr;
  if (x.present()) return &b;
  b.fail_with(Error(ErrorCode::invalid_argument, fmt::format("{}: operand 0 is missing", what)));
  return nullptr;
}

}  // namespace

Value ShapeOps::reshape(Value x, const Shape& shape) {
  GraphBuilder* b = builder_with(*this, x, "reshape");
  if (b == nullptr) return {};
  const TensorSpec from = b->spec(x);
  auto to = contiguous(from.dtype, shape);
  if (to && !is_contiguous(from.dtype, from.layout))
    to = fail(ErrorCode::invalid_argument, "operand is not contiguous");
  if (to && to->shape().n_elements() != from.shape().n_elements())
    to = fail(ErrorCode::invalid_argument, "{} has another number of elements", to_string(shape));
  if (to) return b->add_alias(x, *to, 0);
  b->fail_with(
      std::move(to).error().within(fmt::format("reshape {} {}", b->graph()[x.id()].name, to_string(from.shape()))));
  return {};
}

Value ShapeOps::view(Value x, const Layout& layout, size_t offset) {
  GraphBuilder* b = builder_with(*this, x, "view");
  if (b == nullptr) return {};
  const TensorSpec from = b->spec(x);
  const auto refuse = [&](std::string_view why) {
    b->fail_with(
        Error(ErrorCode::invalid_argument, fmt::format("view {} of {} {}: {}", to_string(layout.shape),
                                                       b->graph()[x.id()].name, to_string(from.shape()), why)));
    return Value();
  };
  // Bounds in checked arithmetic, because extents and strides may come from a file.
  if (!nbytes(from.dtype, layout.shape)) return refuse("shape is not possible for this type");
  int64_t reach =
      row_bytes(from.dtype, layout.shape[0]) ? static_cast<int64_t>(*row_bytes(from.dtype, layout.shape[0])) : 0;
  for (int i = 1; i < kMaxRank; ++i) {
    const int64_t stride = layout.nb[to_size(i)];
    const auto step = checked_mul(stride, std::max<int64_t>(layout.shape[i] - 1, 0));
    const auto sum = step ? checked_add(reach, *step) : std::nullopt;
    if (stride < 0 || !sum) return refuse("stride out of range");
    reach = *sum;
  }
  const auto block_bytes = to_size(info(from.dtype).block_bytes);
  if (to_size(layout.nb[0]) != block_bytes) return refuse("elements of a row must be contiguous");
  for (int i = 1; i < kMaxRank; ++i)
    if (layout.shape[i] > 1 && to_size(layout.nb[to_size(i)]) % block_bytes != 0)
      return refuse("a stride splits an element");
  if (offset % block_bytes != 0) return refuse("the offset splits an element");
  const auto end = checked_add(offset, to_size(reach));
  if (!layout.shape.empty() && (!end || *end > span_bytes(from.dtype, from.layout))) return refuse("reaches outside");
  return b->add_alias(x, {from.dtype, layout}, offset);
}

Value ShapeOps::concat(Value a, Value b) { return add_op(*this, Op::concat, {a, b}); }
Value ShapeOps::transpose(Value x) { return add_op(*this, Op::transpose, {x}); }
Value ShapeOps::sum_to(Value x, const Shape& shape) { return add_op(*this, Op::sum_to, {x}, ShapeParams{shape}); }
Value ShapeOps::repeat(Value x, const Shape& shape) { return add_op(*this, Op::repeat, {x}, ShapeParams{shape}); }
Value ShapeOps::place(Value x, const PlaceParams& params) { return add_op(*this, Op::place, {x}, params); }

namespace {

void list_extents(ParamList& params, const std::array<const char*, kMaxRank>& names,
                  const std::array<int64_t, kMaxRank>& values) {
  for (size_t i = 0; i < names.size(); ++i) params.integer(names[i], values[i]);
}

}  // namespace

void ShapeParams::list(ParamList& params) const { list_extents(params, {"ne0", "ne1", "ne2", "ne3"}, shape.ne); }

void PlaceParams::list(ParamList& params) const {
  list_extents(params, {"ne0", "ne1", "ne2", "ne3"}, shape.ne);
  list_extents(params, {"at_ne0", "at_ne1", "at_ne2", "at_ne3"}, at.shape.ne);
  list_extents(params, {"at_nb0", "at_nb1", "at_nb2", "at_nb3"}, at.nb);
  params.integer("offset", static_cast<int64_t>(offset));
}

namespace {

Result<TensorSpec> infer_view(Operands) {
  return fail(ErrorCode::internal, "a view's shape is given, not inferred from its operand");
}

Result<TensorSpec> infer_concat(Operands x) {
  TESSERA_TRY(require_f32_rows(*x[0], "the first operand"));
  TESSERA_TRY(require_f32_rows(*x[1], "the second operand"));
  Shape shape = x[0]->shape();
  for (int i = 1; i < kMaxRank; ++i)
    if (x[1]->shape()[i] != shape[i])
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, shape[i], x[1]->shape()[i]);
  const auto n = checked_add(shape[0], x[1]->shape()[0]);
  if (!n) return fail(ErrorCode::limit, "rows are too long");
  shape[0] = *n;
  return contiguous(DType::f32, shape);
}

Result<TensorSpec> infer_transpose(Operands x) {
  if (!has_contiguous_rows(x[0]->dtype, x[0]->layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  const Shape& shape = x[0]->shape();
  return contiguous(DType::f32, {shape[1], shape[0], shape[2], shape[3]});
}

Result<TensorSpec> infer_repeated(Operands x, const Shape& shape, bool grows) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  for (int i = 0; i < kMaxRank; ++i) {
    const int64_t from = x[0]->shape()[i], to = shape[i];
    if (from != to && (grows ? from : to) != 1)
      return fail(ErrorCode::invalid_argument, "dimension {}: {} and {} do not match", i, from, to);
  }
  return contiguous(DType::f32, shape);
}

Result<TensorSpec> infer_sum_to(Operands x, const ShapeParams& p) { return infer_repeated(x, p.shape, false); }
Result<TensorSpec> infer_repeat(Operands x, const ShapeParams& p) { return infer_repeated(x, p.shape, true); }

// True if the dimensions nest, which implies that no two elements share an address.
bool is_injective(const Layout& layout) {
  std::array<int, kMaxRank> order{0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](int i) { return layout.nb[to_size(i)]; });
  int64_t reach = 0;  // bytes spanned by the dimensions so far
  for (const int i : order) {
    if (layout.shape[i] == 1) continue;
    const int64_t stride = layout.nb[to_size(i)];
    const auto step = checked_mul(stride, layout.shape[i] - 1);
    const auto end = step ? checked_add(reach, *step) : std::nullopt;
    if (!end || stride < reach + static_cast<int64_t>(sizeof(float))) return false;
    reach = *end;
  }
  return true;
}

Result<TensorSpec> infer_place(Operands x, const PlaceParams& p) {
  TESSERA_TRY(require_f32_rows(*x[0], "x"));
  TESSERA_ASSIGN(const TensorSpec result, contiguous(DType::f32, p.shape));
  if (p.at.shape != x[0]->shape())
    return fail(ErrorCode::invalid_argument, "x is {}, its place {}", to_string(x[0]->shape()), to_string(p.at.shape));
  if (!has_contiguous_rows(DType::f32, p.at) || !is_injective(p.at) || p.offset % sizeof(float) != 0)
    return fail(ErrorCode::invalid_argument, "places are not distinct rows of floats");
  const auto end = checked_add(p.offset, span_bytes(DType::f32, p.at));
  if (!end || *end > span_bytes(DType::f32, result.layout))
    return fail(ErrorCode::invalid_argument, "the place reaches outside {}", to_string(p.shape));
  return result;
}

void gradient_view(Gradient& g) {
  const TensorSpec of = g.spec(0);
  if (g.node().alias_offset == 0 && is_contiguous(of.dtype, of.layout) &&
      is_contiguous(g.node().spec.dtype, g.node().spec.layout) &&
      of.shape().n_elements() == g.node().spec.shape().n_elements())
    return g.give(0, g.b.reshape(g.dy(), of.shape()));
  if (is_contiguous(of.dtype, of.layout))
    return g.give(0, g.b.place(g.dy(), {of.shape(), g.node().spec.layout, g.node().alias_offset}));
  // The view's strides, including gaps, refer to its source's memory, so dy is placed in a copy of that layout.
  const auto n = static_cast<int64_t>(span_bytes(of.dtype, of.layout) / sizeof(float));
  const Value spread = g.b.place(g.dy(), {Shape{n}, g.node().spec.layout, g.node().alias_offset});
  g.give(0, g.b.cast(g.b.view(spread, of.layout, 0), DType::f32));
}

void gradient_concat(Gradient& g) {
  size_t offset = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Layout part{.shape = g.spec(i).shape(), .nb = g.b.spec(g.dy()).layout.nb};
    if (g.wants(i)) g.give(i, g.b.cast(g.b.view(g.dy(), part, offset), DType::f32));
    offset += to_size(part.shape[0]) * sizeof(float);
  }
}

void gradient_transpose(Gradient& g) { g.give(0, g.b.transpose(g.dy())); }
void gradient_sum_to(Gradient& g) { g.give(0, g.b.repeat(g.dy(), g.spec(0).shape())); }
void gradient_repeat(Gradient& g) { g.give(0, g.b.sum_to(g.dy(), g.spec(0).shape())); }

void gradient_place(Gradient& g) {
  const auto& params = g.params<PlaceParams>();
  g.give(0, g.b.cast(g.b.view(g.dy(), params.at, params.offset), DType::f32));
}

template <auto kInfer>
consteval OpDef reshaping(size_t n_operands, void (*gradient)(Gradient&)) {
  return {.n_operands = n_operands,
          .infer = shape_rule<kInfer>,
          .gradient = gradient,
          .cost = cost_of_memory,
          .in_place = kNoOperand,
          .writes = kNoOperand};
}

}  // namespace

const OpDef op_defs::view = reshaping<infer_view>(1, gradient_view);
const OpDef op_defs::concat = reshaping<infer_concat>(2, gradient_concat);
const OpDef op_defs::transpose = reshaping<infer_transpose>(1, gradient_transpose);
const OpDef op_defs::sum_to = reshaping<infer_sum_to>(1, gradient_sum_to);
const OpDef op_defs::repeat = reshaping<infer_repeat>(1, gradient_repeat);
const OpDef op_defs::place = reshaping<infer_place>(1, gradient_place);

}  // namespace tessera
