#include "tessera/graph/ops/kv.h"

#include "tessera/graph/op_def.h"

namespace tessera {

Value KvOps::kv_store(Value cache, Value x, Value cells, KvSide side) {
  return add_op_in_place(*this, Op::kv_store, {cache, x, cells}, KvParams{side});
}

Value KvOps::kv_load(Value cache, Value cells, KvSide side) {
  return add_op(*this, Op::kv_load, {cache, cells}, KvParams{side});
}

namespace {

Result<> require_cache(const TensorSpec& cache) {
  if (cache.shape()[1] != kKvBlockTokens)
    return fail(ErrorCode::invalid_argument, "cache {}: want [dim, {}, n_heads_kv, n_blocks]", to_string(cache.shape()),
                kKvBlockTokens);
  if (!is_contiguous(cache.dtype, cache.layout))
    return fail(ErrorCode::invalid_argument, "the cache is not contiguous");
  return {};
}

Result<TensorSpec> infer_kv_store(Operands x, const KvParams&) {
  const TensorSpec &cache = *x[0], &rows = *x[1];
  TESSERA_TRY(require_cache(cache));
  if (rows.dtype != DType::f32 && rows.dtype != cache.dtype)
    return fail(ErrorCode::invalid_argument, "rows are {}, want f32 or {}", info(rows.dtype).name,
                info(cache.dtype).name);
  if (!has_contiguous_rows(rows.dtype, rows.layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  if (rows.shape()[0] != cache.shape()[0] || rows.shape()[1] != cache.shape()[2] || rows.shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "rows {} do not fit the cache {}", to_string(rows.shape()),
                to_string(cache.shape()));
  TESSERA_TRY(require_i32_vector(*x[2], "cells", rows.shape()[2]));
  return cache;
}

Result<TensorSpec> infer_kv_load(Operands x, const KvParams&) {
  TESSERA_TRY(require_cache(*x[0]));
  TESSERA_TRY(require_i32_vector(*x[1], "cells", -1));
  return contiguous(x[0]->dtype, {x[0]->shape()[0], x[0]->shape()[2], x[1]->shape()[0]});
}

// Only the rows are read and written; the rest of the cache is not accessed.
Cost cost_of_kv_store(const Graph& graph, const Node& node) { return {.bytes = 2 * operand_bytes(graph, node, 1)}; }

}  // namespace

const OpDef op_defs::kv_store = {.n_operands = 3,
                                 .infer = shape_rule<infer_kv_store>,
                                 .gradient = kForwardOnly,
                                 .cost = cost_of_kv_store,
                                 .in_place = kNoOperand,
                                 .writes = operands(0)};
const OpDef op_defs::kv_load = {.n_operands = 2,
                                .infer = shape_rule<infer_kv_load>,
                                .gradient = kForwardOnly,
                                .cost = cost_of_copied_rows,
                                .in_place = kNoOperand,
                                .writes = kNoOperand};

}  // namespace tessera
