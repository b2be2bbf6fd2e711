#include "tessera/graph/ops/kv.h"

#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

Result<> want_cache(const TensorSpec& cache, const OpParams& params) {
  if (!std::holds_alternative<KvParams>(params)) return fail(ErrorCode::internal, "parameters of another op");
  if (cache.shape()[1] != kKvBlockTokens)
    return fail(ErrorCode::invalid_argument, "cache {}: want [dim, {}, n_heads_kv, n_blocks]", to_string(cache.shape()),
                kKvBlockTokens);
  if (!is_contiguous(cache.dtype, cache.layout))
    return fail(ErrorCode::invalid_argument, "the cache is not contiguous");
  return {};
}

}  // namespace

Result<TensorSpec> infer_kv_store(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 3, 3));
  const TensorSpec &cache = *x[0], &rows = *x[1];
  TESSERA_TRY(want_cache(cache, params));
  if (rows.dtype != DType::f32 && rows.dtype != cache.dtype)
    return fail(ErrorCode::invalid_argument, "rows are {}, want f32 or {}", info(rows.dtype).name,
                info(cache.dtype).name);
  if (!has_contiguous_rows(rows.dtype, rows.layout))
    return fail(ErrorCode::invalid_argument, "rows are not contiguous");
  if (rows.shape()[0] != cache.shape()[0] || rows.shape()[1] != cache.shape()[2] || rows.shape()[3] != 1)
    return fail(ErrorCode::invalid_argument, "rows {} do not fit the cache {}", to_string(rows.shape()),
                to_string(cache.shape()));
  TESSERA_TRY(want_i32_vector(*x[2], "cells", rows.shape()[2]));
  return cache;
}

Result<TensorSpec> infer_kv_load(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 2, 2));
  TESSERA_TRY(want_cache(*x[0], params));
  TESSERA_TRY(want_i32_vector(*x[1], "cells", -1));
  return contiguous(x[0]->dtype, {x[0]->shape()[0], x[0]->shape()[2], x[1]->shape()[0]});
}

}  // namespace tessera
