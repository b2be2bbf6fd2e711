#include "tessera/graph/ops/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tessera/graph/op_def.h"

namespace tessera {

Value AttentionOps::paged_attention(Value q, Value k_cache, Value v_cache, Value positions, Value slots, Value blocks,
                                    Value valid, Value sinks, const AttentionParams& params, Value bias, Value chosen) {
  // Devices of before know nine operands.
  if (!chosen.present())
    return add_op(*this, Op::paged_attention, {q, k_cache, v_cache, positions, slots, blocks, valid, sinks, bias},
                  params);
  return add_op(*this, Op::paged_attention, {q, k_cache, v_cache, positions, slots, blocks, valid, sinks, bias, chosen},
                params);
}

Value AttentionOps::choose_keys(Value q, Value k_cache, Value weights, Value positions, Value slots, Value blocks,
                                Value valid, const KeyChoiceParams& params) {
  return add_op(*this, Op::choose_keys, {q, k_cache, weights, positions, slots, blocks, valid}, params);
}

void KeyChoiceParams::list(ParamList& params) const {
  params.integer("n_chosen", n_chosen);
  params.integer("unit", unit);
  params.integer("n_local", n_local);
}

void AttentionParams::list(ParamList& params) const {
  params.number("scale", scale);
  params.integer("causal", causal);
  params.integer("window", window);
  // Plugins refuse parameters that they do not know, so a new one is listed only where it has a meaning.
  if (chunked) params.integer("chunked", chunked);
  params.number("soft_cap", soft_cap);
  params.number("max_alibi", max_alibi);
  params.integer("latent_v", latent_v);
  params.integer("int16", int16);
}

Result<> require_attention_params(const AttentionParams& p) {
  if (!std::isfinite(p.scale)) return fail(ErrorCode::invalid_argument, "scale {} is not finite", p.scale);
  for (const float f : {p.soft_cap, p.max_alibi})
    if (!std::isfinite(f) || f < 0)
      return fail(ErrorCode::invalid_argument, "attention parameter {}, want a finite value >= 0", f);
  if (p.window < 0 || p.latent_v < 0)
    return fail(ErrorCode::invalid_argument, "window {} or latent V {} is below 0", p.window, p.latent_v);
  if (p.chunked && (!p.causal || p.window == 0))
    return fail(ErrorCode::invalid_argument, "chunks want causal attention and a window");
  return {};
}

float alibi_slope(float max_alibi, int64_t head, int64_t n_heads) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n_heads)));
  const double exponent = head < n ? static_cast<double>(head + 1) : static_cast<double>(2 * (head - n) + 1) / 2;
  return static_cast<float>(std::exp2(-double{max_alibi} * exponent / static_cast<double>(n)));
}

int64_t bias_bucket(int64_t distance, int64_t n_buckets, bool causal) {
  const int64_t n = causal ? n_buckets : n_buckets / 2;
  const int64_t first = !causal && distance > 0 ? n : 0;
  const int64_t length = causal ? std::max<int64_t>(-distance, 0) : std::abs(distance);
  const int64_t n_exact = n / 2;
  if (length < n_exact) return first + length;
  // In f32, as in training. If a bucket begins at a power of two, the ratio of the logarithms is exact.
  const auto of_longest = static_cast<float>(kMaxBiasDistance) / static_cast<float>(n_exact);
  const float share = std::log(static_cast<float>(length) / static_cast<float>(n_exact)) / std::log(of_longest);
  return first + std::min(n - 1, n_exact + static_cast<int64_t>(share * static_cast<float>(n - n_exact)));
}

namespace {

/// Elements of a V vector, which has its own cache or is part of K.
Result<int64_t> v_dim_of(Operands x, const AttentionParams& p) {
  const Shape& k = x[1]->shape();
  if (x[2] == nullptr) {
    if (p.latent_v < 1 || p.latent_v > k[0])
      return fail(ErrorCode::invalid_argument, "no V cache, and {} of K's {} elements as V", p.latent_v, k[0]);
    return p.latent_v;
  }
  const Shape& v = x[2]->shape();
  if (p.latent_v != 0) return fail(ErrorCode::invalid_argument, "a V cache beside a V that is part of K");
  if (v[1] != kKvBlockTokens || k[2] != v[2] || k[3] != v[3])
    return fail(ErrorCode::invalid_argument, "K and V caches differ in shape");
  if (v[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (!is_contiguous(x[2]->dtype, x[2]->layout))
    return fail(ErrorCode::invalid_argument, "V {} is not a contiguous cache", to_string(v));
  return v[0];
}

/// The operands that attention and the choice of keys share: q, K, and 3 to 6, the tokens and tables.
Result<> require_paged_keys(Operands x) {
  const Shape &q = x[0]->shape(), &k = x[1]->shape();
  TESSERA_TRY(require_f32_rows(*x[0], "q"));
  if (k[0] != q[0] || q[3] != 1) return fail(ErrorCode::invalid_argument, "q has {} elements, K has {}", q[0], k[0]);
  if (k[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (k[1] != kKvBlockTokens || !is_contiguous(x[1]->dtype, x[1]->layout))
    return fail(ErrorCode::invalid_argument, "K {} is not a contiguous cache", to_string(k));
  if (x.size() < 7 || std::ranges::count(x.subspan(3, 4), nullptr) > 0)
    return fail(ErrorCode::invalid_argument, "positions, slots or block tables are missing");
  const Shape& blocks = x[5]->shape();
  if (k[2] < 1 || q[1] < 1 || q[1] % k[2] != 0)
    return fail(ErrorCode::invalid_argument, "{} query heads for {} KV heads, want a multiple", q[1], k[2]);
  TESSERA_TRY(require_i32_vector(*x[3], "positions", q[2]));
  TESSERA_TRY(require_i32_vector(*x[4], "slots", q[2]));
  if (x[5]->dtype != DType::i32 || x[6]->dtype != DType::i64 || x[6]->shape() != blocks || blocks[2] != 1 ||
      blocks[3] != 1)
    return fail(ErrorCode::invalid_argument, "want blocks i32 and valid i64, both [n_max_blocks, n_slots]");
  if (!is_contiguous(DType::i32, x[5]->layout) || !is_contiguous(DType::i64, x[6]->layout))
    return fail(ErrorCode::invalid_argument, "block tables are not contiguous");
  return {};
}

Result<> require_chosen(const TensorSpec& chosen, int64_t n_max_blocks, int64_t n_heads_kv, int64_t n_tokens) {
  const Shape& shape = chosen.shape();
  const bool has_sets = shape[1] == 1 || shape[1] == n_heads_kv;
  if (chosen.dtype != DType::i64 || !has_sets || shape != Shape{n_max_blocks, shape[1], n_tokens})
    return fail(ErrorCode::invalid_argument, "chosen keys {}, want i64 [{}, 1 or {}, {}]", to_string(shape),
                n_max_blocks, n_heads_kv, n_tokens);
  if (!is_contiguous(DType::i64, chosen.layout))
    return fail(ErrorCode::invalid_argument, "chosen keys are not contiguous");
  return {};
}

Result<TensorSpec> infer_attention(Operands x, const AttentionParams& p) {
  TESSERA_TRY(require_attention_params(p));
  TESSERA_TRY(require_paged_keys(x));
  const Shape &q = x[0]->shape(), &k = x[1]->shape();
  TESSERA_ASSIGN(const int64_t v_dim, v_dim_of(x, p));
  if (x.size() > 7 && x[7] != nullptr) {
    TESSERA_TRY(require_f32_rows(*x[7], "sinks"));
    if (x[7]->shape() != Shape{q[1]})
      return fail(ErrorCode::invalid_argument, "sinks {}, want one per head, {}", to_string(x[7]->shape()), q[1]);
  }
  if (x.size() > 8 && x[8] != nullptr) {
    const Shape& bias = x[8]->shape();
    TESSERA_TRY(require_f32_rows(*x[8], "relative bias"));
    if (bias != Shape{q[1], bias[1]} || bias[1] < 4 || bias[1] % 4 != 0)
      return fail(ErrorCode::invalid_argument, "relative bias {}, want {} heads and a multiple of 4 buckets",
                  to_string(bias), q[1]);
  }
  if (x.size() > 9 && x[9] != nullptr) {
    TESSERA_TRY(require_chosen(*x[9], x[5]->shape()[0], k[2], q[2]));
  }
  return contiguous(DType::f32, {v_dim, q[1], q[2]});
}

Result<TensorSpec> infer_choice(Operands x, const KeyChoiceParams& p) {
  constexpr int64_t kMost = int64_t{1} << 32;  // so that no sum of positions overflows
  if (p.n_chosen < 1 || p.unit < 1 || p.unit > kMost || p.n_local < 0)
    return fail(ErrorCode::invalid_argument, "a choice of {} units of {} positions, {} of them local", p.n_chosen,
                p.unit, p.n_local);
  TESSERA_TRY(require_paged_keys(x));
  const Shape& q = x[0]->shape();
  if (x[1]->shape()[2] != 1) return fail(ErrorCode::invalid_argument, "keys of {} heads, want one", x[1]->shape()[2]);
  if (x[2] != nullptr) {
    TESSERA_TRY(require_f32_rows(*x[2], "weights of heads"));
    if (x[2]->shape() != Shape{q[1], q[2]})
      return fail(ErrorCode::invalid_argument, "weights of heads {}, want [{}, {}]", to_string(x[2]->shape()), q[1],
                  q[2]);
  }
  return contiguous(DType::i64, {x[5]->shape()[0], x[2] != nullptr ? 1 : q[1], q[2]});
}

// Without the bytes of the cache: the graph does not know how much of it is filled.
Cost cost_of_attention(const Graph& graph, const Node& node) {
  return {.bytes = result_bytes(node) + operand_bytes(graph, node, 0)};
}

}  // namespace

const OpDef op_defs::paged_attention = {.n_operands = {2, 10},
                                        .infer = shape_rule<infer_attention>,
                                        .gradient = kForwardOnly,
                                        .cost = cost_of_attention,
                                        .in_place = kNoOperand,
                                        .writes = kNoOperand};
const OpDef op_defs::choose_keys = {.n_operands = {2, 7},
                                    .infer = shape_rule<infer_choice>,
                                    .gradient = kForwardOnly,
                                    .cost = cost_of_attention,
                                    .in_place = kNoOperand,
                                    .writes = kNoOperand};

}  // namespace tessera
