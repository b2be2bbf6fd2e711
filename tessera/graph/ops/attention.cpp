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

Value AttentionOps::window_keys(Value chosen, Value positions, Value blocks, const KeyWindowParams& params) {
  return add_op(*this, Op::window_keys, {positions, blocks, chosen}, params);
}

Value AttentionOps::compress_rows(Value bias, Value rows, Value gates, Value positions, Value slots, Value blocks,
                                  Value valid, Value cells, const CompressionParams& params) {
  return add_op(*this, Op::compress_rows, {bias, rows, gates, positions, slots, blocks, valid, cells}, params);
}

void KeyWindowParams::list(ParamList& params) const {
  params.integer("window", window);
  params.integer("ratio", ratio);
  params.integer("n_entry_blocks", n_entry_blocks);
}

void CompressionParams::list(ParamList& params) const {
  params.integer("ratio", ratio);
  params.integer("overlaps", overlaps);
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

/// Operands 3 to 6: positions and slots of tokens, and the block tables.
Result<> require_tables(Operands x, int64_t n_tokens) {
  if (x.size() < 7 || std::ranges::count(x.subspan(3, 4), nullptr) > 0)
    return fail(ErrorCode::invalid_argument, "positions, slots or block tables are missing");
  const Shape& blocks = x[5]->shape();
  TESSERA_TRY(require_i32_vector(*x[3], "positions", n_tokens));
  TESSERA_TRY(require_i32_vector(*x[4], "slots", n_tokens));
  if (x[5]->dtype != DType::i32 || x[6]->dtype != DType::i64 || x[6]->shape() != blocks || blocks[2] != 1 ||
      blocks[3] != 1)
    return fail(ErrorCode::invalid_argument, "want blocks i32 and valid i64, both [n_max_blocks, n_slots]");
  if (!is_contiguous(DType::i32, x[5]->layout) || !is_contiguous(DType::i64, x[6]->layout))
    return fail(ErrorCode::invalid_argument, "block tables are not contiguous");
  return {};
}

/// The operands that attention and the choice of keys share: q, K, and 3 to 6, the tokens and tables.
Result<> require_paged_keys(Operands x) {
  const Shape &q = x[0]->shape(), &k = x[1]->shape();
  TESSERA_TRY(require_f32_rows(*x[0], "q"));
  if (k[0] != q[0] || q[3] != 1) return fail(ErrorCode::invalid_argument, "q has {} elements, K has {}", q[0], k[0]);
  if (k[0] < 1) return fail(ErrorCode::invalid_argument, "heads are empty");
  if (k[1] != kKvBlockTokens || !is_contiguous(x[1]->dtype, x[1]->layout))
    return fail(ErrorCode::invalid_argument, "K {} is not a contiguous cache", to_string(k));
  if (k[2] < 1 || q[1] < 1 || q[1] % k[2] != 0)
    return fail(ErrorCode::invalid_argument, "{} query heads for {} KV heads, want a multiple", q[1], k[2]);
  return require_tables(x, q[2]);
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

constexpr int64_t kMostPositions = int64_t{1} << 32;  // so that no sum of positions overflows

Result<TensorSpec> infer_choice(Operands x, const KeyChoiceParams& p) {
  if (p.n_chosen < 1 || p.unit < 1 || p.unit > kMostPositions || p.n_local < 0)
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

Result<TensorSpec> infer_window_keys(Operands x, const KeyWindowParams& p) {
  TESSERA_TRY(require_i32_vector(*x[0], "positions", -1));
  TESSERA_TRY(require_i32_matrix(*x[1], "blocks"));
  const int64_t n_tokens = x[0]->shape()[0], n_max_blocks = x[1]->shape()[0];
  if (p.window < 0 || p.window > kMostPositions || p.ratio < 1 || p.ratio > kMostPositions || p.n_entry_blocks < 0 ||
      p.n_entry_blocks > n_max_blocks)
    return fail(ErrorCode::invalid_argument, "a window of {}, entries of {} positions in {} of {} blocks", p.window,
                p.ratio, p.n_entry_blocks, n_max_blocks);
  if (x.size() > 2 && x[2] != nullptr) TESSERA_TRY(require_chosen(*x[2], n_max_blocks, 1, n_tokens));
  return contiguous(DType::i64, {n_max_blocks, 1, n_tokens});
}

Result<TensorSpec> infer_compression(Operands x, const CompressionParams& p) {
  if (p.ratio < 1 || p.ratio > kMostPositions)
    return fail(ErrorCode::invalid_argument, "entries of {} positions", p.ratio);
  TESSERA_TRY(require_f32_rows(*x[0], "biases"));
  TESSERA_TRY(require_i32_vector(*x[7], "cells", -1));
  const Shape &bias = x[0]->shape(), &rows = x[1]->shape();
  const int64_t n_parts = p.overlaps ? 2 : 1, n_tokens = x[7]->shape()[0];
  for (const size_t side : {1u, 2u})
    if (x[side]->dtype != DType::f32 || !is_contiguous(DType::f32, x[side]->layout) ||
        x[side]->shape() != Shape{rows[0], kKvBlockTokens, 1, rows[3]})
      return fail(ErrorCode::invalid_argument, "rows {} and gates {}, want two equal f32 caches of one head",
                  to_string(rows), to_string(x[2]->shape()));
  if (rows[0] < 1 || rows[0] % n_parts != 0 || bias != Shape{rows[0], p.ratio})
    return fail(ErrorCode::invalid_argument, "biases {}, want [{}, {}]", to_string(bias), rows[0], p.ratio);
  TESSERA_TRY(require_tables(x, n_tokens));
  return contiguous(DType::f32, {rows[0] / n_parts, n_tokens});
}

// Without the bytes of the cache: the graph does not know how much of it is filled.
Cost cost_of_attention(const Graph& graph, const Node& node) {
  return {.bytes = result_bytes(node) + operand_bytes(graph, node, 0)};
}

Cost cost_of_compression(const Graph&, const Node& node) { return {.bytes = result_bytes(node)}; }

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
const OpDef op_defs::window_keys = {.n_operands = {2, 3},
                                    .infer = shape_rule<infer_window_keys>,
                                    .gradient = kForwardOnly,
                                    .cost = cost_of_memory,
                                    .in_place = kNoOperand,
                                    .writes = kNoOperand};
const OpDef op_defs::compress_rows = {.n_operands = 8,
                                      .infer = shape_rule<infer_compression>,
                                      .gradient = kForwardOnly,
                                      .cost = cost_of_compression,
                                      .in_place = kNoOperand,
                                      .writes = kNoOperand};

}  // namespace tessera
