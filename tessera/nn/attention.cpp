#include "tessera/nn/attention.h"

#include <fmt/format.h>

#include "tessera/base/index.h"

namespace tessera::nn {

namespace {

Value bounded(GraphBuilder& b, Value x, float limit) { return limit > 0 ? b.clamp(x, -limit, limit) : x; }

// Rows [first, first + dim * n_heads) of y [n, t] as heads.
Value heads_of(GraphBuilder& b, Value y, int64_t first, int64_t dim, int64_t n_heads) {
  const Layout layout = b.spec(y).layout;
  const int64_t n_tokens = layout.shape[1], head_bytes = dim * layout.nb[0], token_bytes = layout.nb[1];
  return b.view(
      y, {.shape = {dim, n_heads, n_tokens}, .nb = {layout.nb[0], head_bytes, token_bytes, token_bytes * n_tokens}},
      to_size(first * layout.nb[0]));
}

Heads split_projection(GraphBuilder& b, Value x, const Attention& a) {
  const int64_t n_q = a.k_dim * a.n_heads, n_k = a.k_dim * a.qkv_heads_kv;
  const Value y = bounded(b, linear(b, x, a.qkv), a.clamp);
  return {heads_of(b, y, 0, a.k_dim, a.n_heads), heads_of(b, y, n_q, a.k_dim, a.n_heads_kv),
          heads_of(b, y, n_q + n_k, a.v_dim, a.n_heads_kv)};
}

Heads three_projections(GraphBuilder& b, Value x, const Attention& a) {
  const int64_t n_tokens = b.spec(x).shape()[1];
  // The three products are consecutive, so that a backend packs or quantizes x once for all of them.
  const Value q = b.mul_mat(b.tensor(*a.q.weight), x);
  const Value k = b.mul_mat(b.tensor(*a.k.weight), x);
  const Value v = b.mul_mat(b.tensor(*a.v.weight), x);
  const auto finish = [&](Value y, const Linear& layer, int64_t dim, int64_t n_heads) {
    return b.reshape(bounded(b, finish_linear(b, y, layer), a.clamp), {dim, n_heads, n_tokens});
  };
  return {finish(q, a.q, a.k_dim, a.n_heads), finish(k, a.k, a.k_dim, a.n_heads_kv),
          finish(v, a.v, a.v_dim, a.n_heads_kv)};
}

Value attend_to_batch(GraphBuilder& b, const Heads& heads, const Attention& a, const BatchInputs& in) {
  const auto refuse = [&](std::string_view what) {
    b.fail_with(Error(ErrorCode::unsupported, fmt::format("attention without a cache: {}", what)));
    return Value();
  };
  if (a.relative_bias != nullptr) return refuse("a relative bias");
  if (heads.q.present() && !heads.k.present()) return refuse("K and V of another layer");
  const Value sinks = a.sinks == nullptr ? Value() : vector_f32(b, *a.sinks);
  const Value out = b.self_attention(heads.q, heads.k, heads.v, in.positions, in.sequences, sinks, a.params);
  return b.reshape(out, {a.v_dim * a.n_heads, b.spec(out).shape()[2]});
}

Heads normed(GraphBuilder& b, Heads heads, const Attention& a) {
  if (a.q_norm.present()) heads.q = head_norm(b, heads.q, a.q_norm);
  if (a.k_norm.present()) heads.k = head_norm(b, heads.k, a.k_norm);
  return heads;
}

AttentionParams params_of(const Attention& a, const BatchInputs& in) {
  AttentionParams params = a.params;
  params.int16 = in.int16_attention;
  return params;
}

}  // namespace

Heads project(GraphBuilder& b, Value x, const Attention& a) {
  const Heads heads = a.qkv.weight != nullptr ? split_projection(b, x, a) : three_projections(b, x, a);
  return a.norms_rotated ? heads : normed(b, heads, a);
}

Heads rotate(GraphBuilder& b, Heads heads, const Attention& a, std::span<const RopeTable> ropes) {
  if (a.rope != kNoRope) {
    const auto& [table, pairs] = ropes[to_size(a.rope)];
    heads.q = b.rope(heads.q, table, pairs);
    if (heads.k.present()) heads.k = b.rope(heads.k, table, pairs);
  }
  return a.norms_rotated ? normed(b, heads, a) : heads;
}

Value attend(GraphBuilder& b, const Heads& heads, const Attention& a, const BatchInputs& in, const KvCache& cache,
             Value chosen) {
  if (in.groups.empty() || !in.cache(a.cache_layer).cells.present()) return attend_to_batch(b, heads, a, in);
  const CacheInputs& at = in.cache(a.cache_layer);
  // K and V are stored before the attention, so that a token's result does not depend on how a batch was split.
  Value k_cache = b.tensor(cache.k(a.cache_layer));
  if (heads.k.present()) k_cache = b.kv_store(k_cache, heads.k, at.cells, KvSide::k);
  Value v_cache = a.params.latent_v > 0 ? Value() : b.tensor(cache.v(a.cache_layer));
  if (heads.v.present()) v_cache = b.kv_store(v_cache, heads.v, at.cells, KvSide::v);
  const Value sinks = a.sinks == nullptr ? Value() : vector_f32(b, *a.sinks);
  const Value bias = a.relative_bias == nullptr ? Value() : vector_f32(b, *a.relative_bias);
  const Value out = b.paged_attention(heads.q, k_cache, v_cache, in.positions, in.sequences, at.blocks, at.valid, sinks,
                                      params_of(a, in), bias, chosen);
  return b.reshape(out, {a.v_dim * a.n_heads, b.spec(out).shape()[2]});
}

Value choose_keys(GraphBuilder& b, Value q_input, Value x, const KeyChoice& c, std::span<const RopeTable> ropes,
                  const BatchInputs& in, const KvCache& cache) {
  const int64_t n_tokens = b.spec(x).shape()[1], n_positions = c.params.n_chosen * c.params.unit;
  const bool has_cache = !in.groups.empty() && in.cache(c.cache_layer).cells.present();
  if (!has_cache) {
    if (n_tokens > n_positions)
      b.fail_with(
          Error(ErrorCode::unsupported,
                fmt::format("attention without a cache: {} tokens, of which {} are chosen", n_tokens, n_positions)));
    return {};
  }
  const auto rotated = [&](Value y, const Linear& layer, int64_t n_heads, const Norm& norm) {
    Value heads = b.reshape(linear(b, y, layer), {c.dim, n_heads, n_tokens});
    if (norm.present()) heads = head_norm(b, heads, norm);
    return c.rope == kNoRope ? heads : b.rope(heads, ropes[to_size(c.rope)].table, ropes[to_size(c.rope)].pairs);
  };
  const CacheInputs& at = in.cache(c.cache_layer);
  // Keys are stored in any case, since a saved sequence may continue in a session with a longer context.
  const Value keys = b.kv_store(b.tensor(cache.k(c.cache_layer)), rotated(x, c.k, 1, c.k_norm), at.cells, KvSide::k);
  if (cache.config().n_ctx <= n_positions) return {};
  const Value weights = c.weights.weight == nullptr ? Value() : linear(b, x, c.weights);
  return b.choose_keys(rotated(q_input, c.q, c.n_heads, c.q_norm), keys, weights, in.positions, in.sequences, at.blocks,
                       at.valid, c.params);
}

Value gated(GraphBuilder& b, Value y, Value x, const Attention& a) {
  const Value product = linear(b, x, a.gate.product);
  const Value gate = a.gate.is_softplus ? b.softplus(product) : b.sigmoid(product);
  const int64_t n_tokens = b.spec(y).shape()[1], n_gates = b.spec(gate).shape()[0] / a.n_heads;
  const Value heads = b.reshape(y, {a.v_dim, a.n_heads, n_tokens});
  return b.reshape(b.mul(heads, b.reshape(gate, {n_gates, a.n_heads, n_tokens})), {a.v_dim * a.n_heads, n_tokens});
}

Value attend_to_encoder(GraphBuilder& b, Value q, const Attention& a, const BatchInputs& in) {
  if (in.encoder == nullptr) {
    b.fail_with(Error(ErrorCode::unsupported, "attention without a cache: to an encoder's output"));
    return {};
  }
  const Value heads = b.reshape(q, {a.k_dim, a.n_heads, b.spec(q).shape()[1]});
  const Value out =
      b.paged_attention(heads, b.tensor(in.encoder->k(a.cache_layer)), b.tensor(in.encoder->v(a.cache_layer)),
                        in.positions, in.sequences, in.encoded.blocks, in.encoded.valid, Value(), params_of(a, in));
  return b.reshape(out, {a.v_dim * a.n_heads, b.spec(out).shape()[2]});
}

}  // namespace tessera::nn
