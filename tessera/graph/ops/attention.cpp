#include "tessera/graph/ops/attention.h"

#include <cmath>

#include "tessera/graph/op_info.h"

namespace tessera {

Result<TensorSpec> infer_attention(Operands x, const OpParams& params) {
  TESSERA_TRY(want_operands(x, 7, 7));
  const auto* p = std::get_if<AttentionParams>(&params);
  if (p == nullptr) return fail(ErrorCode::internal, "parameters of another op");
  if (!std::isfinite(p->scale)) return fail(ErrorCode::invalid_argument, "scale {} is not finite", p->scale);
  const Shape &q = x[0]->shape(), &k = x[1]->shape(), &v = x[2]->shape(), &blocks = x[5]->shape();
  TESSERA_TRY(want_f32_rows(*x[0], "q"));
  if (k[0] != q[0] || q[3] != 1) return fail(ErrorCode::invalid_argument, "q has {} elements, K has {}", q[0], k[0]);
  if (k[1] != kKvBlockTokens || v[1] != kKvBlockTokens || k[2] != v[2] || k[3] != v[3])
    return fail(ErrorCode::invalid_argument, "K and V caches differ in shape");
  if (k[0] < 1 || v[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (!is_contiguous(x[1]->dtype, x[1]->layout) || !is_contiguous(x[2]->dtype, x[2]->layout))
    return fail(ErrorCode::invalid_argument, "the cache is not contiguous");
  if (k[2] < 1 || q[1] < 1 || q[1] % k[2] != 0)
    return fail(ErrorCode::invalid_argument, "{} query heads for {} KV heads, want a multiple", q[1], k[2]);
  TESSERA_TRY(want_i32_vector(*x[3], "positions", q[2]));
  TESSERA_TRY(want_i32_vector(*x[4], "slots", q[2]));
  if (x[5]->dtype != DType::i32 || x[6]->dtype != DType::i64 || x[6]->shape() != blocks || blocks[2] != 1 ||
      blocks[3] != 1)
    return fail(ErrorCode::invalid_argument, "want blocks i32 and valid i64, both [n_max_blocks, n_slots]");
  if (!is_contiguous(DType::i32, x[5]->layout) || !is_contiguous(DType::i64, x[6]->layout))
    return fail(ErrorCode::invalid_argument, "block tables are not contiguous");
  return contiguous(DType::f32, {v[0], q[1], q[2]});
}

}  // namespace tessera
