#include "tessera/nn/recurrent.h"

#include <cmath>

#include "tessera/base/index.h"
#include "tessera/nn/ffn.h"

namespace tessera::nn {

namespace {

Value scan(GraphBuilder& b, const BatchInputs& in, int64_t layer, Value x, Value dt, Value a, Value bs, Value cs,
           Value d) {
  return b.selective_scan(x, dt, a, bs, cs, d, in.state(b, layer, 1), in.segments);
}

// The last two dimensions of a weight as one vector.
Value flat(GraphBuilder& b, const Tensor& weight) {
  return b.reshape(vector_f32(b, weight), {weight.shape().n_elements()});
}

}  // namespace

Value columns(GraphBuilder& b, Value y, int64_t first, int64_t n) {
  Layout layout = b.spec(y).layout;
  layout.shape[0] = n;
  return b.view(y, layout, to_size(first * layout.nb[0]));
}

Value part_columns(GraphBuilder& b, Value y, int64_t n_parts, int64_t first, int64_t n) {
  const Layout layout = b.spec(y).layout;
  const int64_t n_tokens = layout.shape[1], part_bytes = layout.shape[0] / n_parts * layout.nb[0];
  const Value parts = b.view(
      y, {.shape = {n, n_parts, n_tokens}, .nb = {layout.nb[0], part_bytes, layout.nb[1], layout.nb[1] * n_tokens}},
      to_size(first * layout.nb[0]));
  return b.reshape(b.cast(parts, DType::f32), {n * n_parts, n_tokens});
}

Value head_columns(GraphBuilder& b, Value y, int64_t first, int64_t dim, int64_t n_heads) {
  const Layout layout = b.spec(y).layout;
  const int64_t n_tokens = layout.shape[1], token_bytes = layout.nb[1];
  return b.view(y,
                {.shape = {dim, n_heads, n_tokens},
                 .nb = {layout.nb[0], dim * layout.nb[0], token_bytes, token_bytes * n_tokens}},
                to_size(first * layout.nb[0]));
}

Value causal_conv(GraphBuilder& b, Value x, const CausalConv& conv, const BatchInputs& in, int64_t layer,
                  int64_t kind) {
  const Value bias = conv.bias == nullptr ? Value() : vector_f32(b, *conv.bias);
  const Shape& shape = conv.weight->shape();
  const Value weight = b.reshape(vector_f32(b, *conv.weight), {shape[0], shape.n_elements() / shape[0]});
  return b.causal_conv(x, weight, bias, in.state(b, layer, kind), in.segments);
}

Value short_conv(GraphBuilder& b, Value x, const ShortConv& m, const BatchInputs& in) {
  const int64_t n = m.conv.weight->shape()[1];
  const Value bcx = linear(b, x, m.in);
  const Value u = b.mul(columns(b, bcx, 0, n), columns(b, bcx, 2 * n, n));
  return b.mul(causal_conv(b, u, m.conv, in, m.state_layer, 0), columns(b, bcx, n, n));
}

Value mamba(GraphBuilder& b, Value x, const Mamba& m, const BatchInputs& in) {
  const int64_t n_tokens = b.spec(x).shape()[1];
  const auto [projected, z] = halves(b, linear(b, x, m.in));
  const Value u = b.silu(causal_conv(b, projected, m.conv, in, m.state_layer, 0));
  const Value dt_b_c = linear(b, u, m.x_proj);
  const auto part = [&](int64_t first, int64_t n, const Norm& n_norm) {
    const Value y = columns(b, dt_b_c, first, n);
    return m.has_norms ? norm(b, y, n_norm) : y;
  };
  const Value low = part(0, m.dt_rank, m.dt_norm);
  const Value bs = part(m.dt_rank, m.n_state, m.b_norm), cs = part(m.dt_rank + m.n_state, m.n_state, m.c_norm);
  const Value dt = b.softplus(linear(b, low, m.dt_proj));
  const Value y = scan(b, in, m.state_layer, b.reshape(u, {1, m.n_inner, n_tokens}), dt, vector_f32(b, *m.a),
                       head_columns(b, bs, 0, m.n_state, 1), head_columns(b, cs, 0, m.n_state, 1), vector_f32(b, *m.d));
  return b.swiglu(z, b.reshape(y, {m.n_inner, n_tokens}));
}

Value mamba2(GraphBuilder& b, Value x, const Mamba2& m, const BatchInputs& in) {
  const int64_t n_tokens = b.spec(x).shape()[1], n_bc = m.n_groups * m.n_state, n_conv = m.n_inner + 2 * n_bc;
  const Value all = linear(b, x, m.in);
  const Value xbc = b.silu(causal_conv(b, columns(b, all, m.n_inner, n_conv), m.conv, in, m.state_layer, 0));
  const Value dt = b.softplus(b.add(columns(b, all, m.n_inner + n_conv, m.n_heads), vector_f32(b, *m.dt_bias)));
  const Value y = scan(b, in, m.state_layer, head_columns(b, xbc, 0, m.n_inner / m.n_heads, m.n_heads), dt,
                       vector_f32(b, *m.a), head_columns(b, xbc, m.n_inner, m.n_state, m.n_groups),
                       head_columns(b, xbc, m.n_inner + n_bc, m.n_state, m.n_groups), flat(b, *m.d));
  const Value gated = b.swiglu(columns(b, all, 0, m.n_inner), b.reshape(y, {m.n_inner, n_tokens}));
  if (!m.norm.present()) return gated;
  const Value groups = b.reshape(gated, {m.n_inner / m.n_groups, m.n_groups, n_tokens});
  return b.reshape(head_norm(b, groups, m.norm), {m.n_inner, n_tokens});
}

namespace {

struct Qkv {
  Value q, k, v;  // [dim, heads, t]
};

// Rows [first, first + n) of the convolution on channels x [n, t], with a separate state.
Value part_of_conv(GraphBuilder& b, Value x, const DeltaNet& m, int64_t first, const BatchInputs& in, int64_t kind) {
  const Value all = vector_f32(b, *m.conv.weight);
  Layout layout = b.spec(all).layout;
  layout.shape[1] = b.spec(x).shape()[0];
  const Value weight = b.view(all, layout, to_size(first * layout.nb[1]));
  return b.silu(b.causal_conv(x, weight, Value(), in.state(b, m.state_layer, kind), in.segments));
}

Qkv delta_qkv(GraphBuilder& b, Value x, const DeltaNet& m, const BatchInputs& in) {
  const int64_t n_qk = m.dim * m.n_k_heads;
  const Value qkv = b.silu(causal_conv(b, linear(b, x, m.qkv), m.conv, in, m.state_layer, 0));
  return {head_columns(b, qkv, 0, m.dim, m.n_k_heads), head_columns(b, qkv, n_qk, m.dim, m.n_k_heads),
          head_columns(b, qkv, 2 * n_qk, m.dim, m.n_v_heads)};
}

Qkv delta_qkv_part_columns(GraphBuilder& b, Value all, const DeltaNet& m, const BatchInputs& in) {
  const int64_t d = m.dim, nk = m.n_k_heads, v_part = d * (m.n_v_heads / nk), n_qk = d * nk;
  const Value q = part_of_conv(b, part_columns(b, all, nk, 0, d), m, 0, in, 0);
  const Value k = part_of_conv(b, part_columns(b, all, nk, d, d), m, n_qk, in, 2);
  const Value v = part_of_conv(b, part_columns(b, all, nk, 2 * d, v_part), m, 2 * n_qk, in, 3);
  return {head_columns(b, q, 0, d, nk), head_columns(b, k, 0, d, nk), head_columns(b, v, 0, d, m.n_v_heads)};
}

}  // namespace

Value delta_net(GraphBuilder& b, Value x, const DeltaNet& m, const BatchInputs& in) {
  const int64_t n_tokens = b.spec(x).shape()[1], nk = m.n_k_heads, per_key = m.n_v_heads / nk;
  Qkv qkv;
  Value z, alpha, beta;
  if (m.qkv.weight != nullptr) {
    qkv = delta_qkv(b, x, m, in);
    z = linear(b, x, m.z);
  } else {
    const Value all = linear(b, x, m.qkvz);
    qkv = delta_qkv_part_columns(b, all, m, in);
    z = part_columns(b, all, nk, (2 + per_key) * m.dim, per_key * m.dim);
  }
  if (m.alpha.weight != nullptr) {
    alpha = linear(b, x, m.alpha);
    beta = linear(b, x, m.beta);
  } else {
    const Value all = linear(b, x, m.beta_alpha);
    beta = part_columns(b, all, nk, 0, per_key);
    alpha = part_columns(b, all, nk, per_key, per_key);
  }
  const Value log_decay = b.mul(b.softplus(b.add(alpha, vector_f32(b, *m.dt_bias))), vector_f32(b, *m.a));
  const Value y = b.delta_net(b.l2_norm(qkv.q, m.eps), b.l2_norm(qkv.k, m.eps), qkv.v, b.exp(log_decay),
                              b.sigmoid(beta), in.state(b, m.state_layer, 1), in.segments,
                              {m.key_heads, 1.0f / std::sqrt(static_cast<float>(m.dim))});
  const Shape heads{m.dim, m.n_v_heads, n_tokens};
  return b.reshape(b.swiglu(b.reshape(z, heads), norm(b, y, m.norm)), {m.dim * m.n_v_heads, n_tokens});
}

namespace {

Value with_bias(GraphBuilder& b, Value x, const Tensor* bias) { return bias == nullptr ? x : b.add(x, flat(b, *bias)); }

Value low_rank(GraphBuilder& b, Value x, const LowRank& m, Value (*activation)(GraphBuilder&, Value)) {
  const Value h = linear(b, x, m.down);
  return with_bias(b, linear(b, activation == nullptr ? h : activation(b, h), m.up), m.bias);
}

}  // namespace

// The delta rule is RWKV-7's recurrence: S decays by w, so the value that is removed for k is read with w k from the
// previous S. It is then subtracted for beta k, which also writes v.
Value kimi_delta(GraphBuilder& b, Value x, const KimiDelta& m, const BatchInputs& in) {
  const Shape heads{m.dim, m.n_heads, b.spec(x).shape()[1]};
  const auto convolved = [&](const Linear& layer, const CausalConv& conv, int64_t kind) {
    return b.reshape(b.silu(causal_conv(b, linear(b, x, layer), conv, in, m.state_layer, kind)), heads);
  };
  const Value q = b.l2_norm(convolved(m.q, m.conv_q, 0), m.eps);
  const Value k = b.l2_norm(convolved(m.k, m.conv_k, 2), m.eps);
  const Value v = convolved(m.v, m.conv_v, 3);
  const Value step = b.softplus(b.reshape(low_rank(b, x, m.decay, nullptr), heads));
  const Value decay = b.exp(b.mul(step, vector_f32(b, *m.a)));
  const Value beta = b.reshape(b.sigmoid(linear(b, x, m.beta)), {1, m.n_heads, heads[2]});
  const Value written = b.mul(k, beta);
  const Value y = b.rwkv7(b.scale(q, 1.0f / std::sqrt(static_cast<float>(m.dim))), decay, written, v, b.mul(k, decay),
                          b.scale(written, -1.0f), in.state(b, m.state_layer, 1), in.segments);
  const Value gate = b.sigmoid(low_rank(b, x, m.gate, nullptr));
  return b.mul(b.reshape(norm(b, y, m.norm), {m.dim * m.n_heads, heads[2]}), gate);
}

namespace {

// x + shift * row `index` of lerp.
Value lerped(GraphBuilder& b, Value x, Value shift, const Tensor& lerp, int64_t index) {
  const int64_t n = lerp.shape()[0];
  const Value rows = b.reshape(vector_f32(b, lerp), {n, lerp.shape().n_elements() / n});
  const int64_t nb = b.spec(rows).layout.nb[1];
  const Value row = b.view(rows, {.shape = {n}, .nb = {4, nb, nb, nb}}, to_size(index * nb));
  return b.add(x, b.mul(shift, row));
}

Value minus(GraphBuilder& b, Value x, Value y) { return b.add(x, b.scale(y, -1.0f)); }

constexpr float kDecayScale = -0.606531f;  // -e^(-1/2): a token's decay is e^(kDecayScale * sigmoid)
constexpr float kHeadNormEps = 64e-5f;     // for the heads' outputs
constexpr float kRemovedKeyEps = 1e-12f;   // lower bound of the norm of a removed key

// The heads y [head_dim, n_heads, t] normed, with weights of all heads: [n_embd, t].
Value normed_heads(GraphBuilder& b, Value y, const Tensor* weight, const Tensor* bias) {
  const Shape heads = b.spec(y).shape(), shape{heads[0] * heads[1], heads[2]};
  if (weight == nullptr) return b.reshape(y, shape);
  const Value out = b.reshape(b.layer_norm(y, Value(), Value(), kHeadNormEps), shape);
  return b.add(b.mul(out, flat(b, *weight)), flat(b, *bias));
}

Value tanh(GraphBuilder& b, Value x) { return b.soft_cap(x, 1.0f); }

}  // namespace

Value rwkv7_time_mix(GraphBuilder& b, Value x, const Rwkv7TimeMix& m, const BatchInputs& in, Value& v_first) {
  const Shape shape = b.spec(x).shape();
  const Shape heads{m.head_dim, m.n_heads, shape[1]};
  const Value shift = b.token_shift(x, in.state(b, m.state_layer, 0), in.segments);
  enum : int64_t { of_r, of_w, of_k, of_v, of_a, of_g };
  const auto mixed = [&](int64_t index) { return lerped(b, x, shift, *m.lerp, index); };
  const Value r = linear(b, mixed(of_r), m.r);
  const Value raw_w = low_rank(b, mixed(of_w), m.w, tanh);
  const Value decay = b.exp(b.scale(b.sigmoid(raw_w), kDecayScale));
  Value k = linear(b, mixed(of_k), m.k);
  const Value x_v = mixed(of_v);
  Value v = linear(b, x_v, m.v);
  if (v_first.present())
    v = b.add(v, b.mul(minus(b, v_first, v), b.sigmoid(low_rank(b, x_v, m.v_mix, nullptr))));
  else
    v_first = v;
  const Value a = b.sigmoid(low_rank(b, mixed(of_a), m.a, nullptr));
  const Value removed = b.l2_norm(b.reshape(b.mul(k, flat(b, *m.k_k)), heads), kRemovedKeyEps);
  const Value k_a = b.mul(k, flat(b, *m.k_a));
  k = b.add(k, minus(b, b.mul(a, k_a), k_a));

  const auto as_heads = [&](Value y) { return b.reshape(y, heads); };
  const Value y = b.rwkv7(as_heads(r), as_heads(decay), as_heads(k), as_heads(v), b.scale(removed, -1.0f),
                          b.mul(removed, as_heads(a)), in.state(b, m.state_layer, m.recurrence), in.segments);
  Value out = normed_heads(b, y, m.norm_weight, m.norm_bias);
  // The contribution of a token's own key and value, per head.
  const Value bonus = b.row_sum(as_heads(b.mul(b.mul(r, k), flat(b, *m.r_k))));
  out = b.add(out, b.reshape(b.mul(as_heads(v), bonus), shape));
  if (m.g.up.weight == nullptr) return out;
  return b.mul(out, low_rank(b, mixed(of_g), m.g, [](GraphBuilder& g, Value h) { return g.sigmoid(h); }));
}

Value rwkv7_channel_mix(GraphBuilder& b, Value x, const Rwkv7ChannelMix& m, const BatchInputs& in) {
  const Value shift = b.token_shift(x, in.state(b, m.state_layer, 1), in.segments);
  return b.relu_squared(linear(b, lerped(b, x, shift, *m.lerp, 0), m.key));
}

namespace {

// The inputs of w, k, v, r and g: x + shift * (lerp + a product with a low rank of x).
std::array<Value, 5> mixed_inputs(GraphBuilder& b, Value x, Value shift, const Rwkv6TimeMix& m) {
  const int64_t n = b.spec(x).shape()[0], n_tokens = b.spec(x).shape()[1], rank = m.lerp_up->shape()[0];
  const int64_t n_parts = static_cast<int64_t>(m.lerp.size());
  const Value low = tanh(b, b.mul_mat(b.tensor(*m.lerp_down), lerped(b, x, shift, *m.lerp_x, 0)));
  const Value all = b.mul_mat_heads(b.tensor(*m.lerp_up), b.reshape(low, {rank, n_parts, n_tokens}));
  const Layout layout = b.spec(all).layout;
  std::array<Value, 5> mixed;
  for (size_t i = 0; i < mixed.size(); ++i) {
    const Layout part{.shape = {n, n_tokens}, .nb = {layout.nb[0], layout.nb[2], layout.nb[3], layout.nb[3]}};
    const Value own = b.view(all, part, i * to_size(layout.nb[1]));
    const bool is_fused = m.lerp[1] == nullptr;
    const Value fixed = lerped(b, x, shift, *m.lerp[is_fused ? 0 : i], is_fused ? static_cast<int64_t>(i) : 0);
    mixed[i] = b.add(fixed, b.mul(shift, own));
  }
  return mixed;
}

// K or V of the heads, of which groups of adjacent ones share a row of x: [head_dim, n_heads, t]. zeros has that shape.
Value repeated_heads(GraphBuilder& b, Value x, Value zeros, const Rwkv6TimeMix& m) {
  const Shape heads = b.spec(zeros).shape();
  const int64_t group = m.n_heads / m.n_heads_kv;
  if (group == 1) return b.reshape(x, heads);
  const Value groups = b.reshape(zeros, {m.head_dim, group, m.n_heads_kv, heads[2]});
  return b.reshape(b.add(groups, b.reshape(x, {m.head_dim, 1, m.n_heads_kv, heads[2]})), heads);
}

}  // namespace

// RWKV-7's recurrence removes a value of S, which RWKV-6 does not: its a and b are 0 here.
Value rwkv6_time_mix(GraphBuilder& b, Value x, const Rwkv6TimeMix& m, const BatchInputs& in) {
  const int64_t n_tokens = b.spec(x).shape()[1];
  const Value shift = b.token_shift(x, in.state(b, m.state_layer, 0), in.segments);
  const auto [x_w, x_k, x_v, x_r, x_g] = mixed_inputs(b, x, shift, m);
  const Shape heads{m.head_dim, m.n_heads, n_tokens};
  const Value low = low_rank(b, x_w, m.w, tanh);
  const Value decay = b.reshape(b.exp(b.scale(b.exp(low), -1.0f)), heads);
  const Value r = b.reshape(linear(b, x_r, m.r), heads);
  const Value zeros = b.scale(decay, 0.0f);
  Value k = repeated_heads(b, linear(b, x_k, m.k), zeros, m);
  const Value v = repeated_heads(b, linear(b, x_v, m.v), zeros, m);
  if (m.bonus == nullptr) k = minus(b, k, b.mul(k, decay));
  const auto recurrence = [&](Value received, StateRead read) {
    return b.rwkv7(received, decay, k, v, zeros, zeros, in.state(b, m.state_layer, m.recurrence), in.segments, {read});
  };
  Value y;
  if (m.bonus != nullptr) {
    const Value bonus = b.row_sum(b.mul(b.mul(r, k), vector_f32(b, *m.bonus)));
    y = b.add(recurrence(r, StateRead::before), b.mul(v, bonus));
  } else {
    y = recurrence(b.scale(r, 1.0f / std::sqrt(static_cast<float>(m.head_dim))), StateRead::after);
  }
  const Value gate = linear(b, x_g, m.g);
  const Value out = normed_heads(b, y, m.norm_weight, m.norm_bias);
  return m.bonus != nullptr ? b.swiglu(gate, out) : b.mul(out, b.sigmoid(gate));
}

GatedHidden rwkv6_channel_mix(GraphBuilder& b, Value x, const Rwkv6ChannelMix& m, const BatchInputs& in) {
  const Value shift = b.token_shift(x, in.state(b, m.state_layer, 1), in.segments);
  return {.hidden = b.relu_squared(linear(b, lerped(b, x, shift, *m.lerp_k, 0), m.key)),
          .gate = b.sigmoid(linear(b, lerped(b, x, shift, *m.lerp_r, 0), m.receptance))};
}

}  // namespace tessera::nn
