// Transformers as formulas in double precision, with files of random weights that fit them. A formula names a weight
// and its shape where it uses it. It is evaluated once before the file is written, so that the file has these weights.
#pragma once

#include "tests/support/tiny_models.h"

namespace tessera::testing::tiny {

enum class HeadNorms : uint8_t { none, before, after, weightless_after };
enum class Gates : uint8_t { none, sigmoid_of_elements, sigmoid_of_heads, softplus_of_heads };

struct Heads {
  int64_t n = 4, n_kv = 2, dim = 8, v_dim = 8;
  int64_t n_rot = 8;  // 0: no rope
  bool is_adjacent = false;
  double base = 10000.0;
  HeadNorms norms = HeadNorms::none;
  int64_t window = 0;
  Gates gates = Gates::none;
  bool has_sinks = false;
  bool is_causal = true;
  double max_alibi = 0.0;
  Vec factors{};                                              // divisors of angles
  std::function<bool(size_t t, size_t kv, size_t s)> sees{};  // whether KV head kv of token t attends to token s
};

/// A weight [n_in, n_out, n_matrices], created at its first use.
inline const std::vector<float>& weight(TinyModel& m, const std::string& name, const Shape& shape, float limit = 1.0f,
                                        float offset = 0.0f) {
  if (!m.has(name)) m.add(name, shape, limit, offset);
  EXPECT_EQ(m.shapes.at(name), shape) << name;
  return m.weights.at(name);
}

inline Vec product(TinyModel& m, const std::string& name, const Vec& x, int64_t n_out, int64_t n_matrices = 1,
                   int64_t matrix = 0) {
  const auto n_in = static_cast<int64_t>(x.size());
  weight(m, name + ".weight", n_matrices == 1 ? Shape{n_in, n_out} : Shape{n_in, n_out, n_matrices});
  return mul(m, name + ".weight", x, matrix);
}

inline Vec normed(TinyModel& m, const std::string& name, const Vec& x) {
  weight(m, name, {static_cast<int64_t>(x.size())}, 0.3f, 1.0f);
  return rms(m, name, x);
}

inline Rows all_normed(TinyModel& m, const std::string& name, const Rows& x) {
  return each(x, [&](const Vec& row) { return normed(m, name, row); });
}

inline void rotate_head(Vec& x, size_t position, const Heads& a) {
  const AttentionRules rules{.n_rot = a.n_rot, .is_adjacent = a.is_adjacent, .base = a.base, .factors = a.factors};
  rotate(x.data(), static_cast<int64_t>(position), rules);
}

inline Vec head_of(TinyModel& m, const std::string& norm_name, Vec x, size_t position, const Heads& a) {
  if (a.norms == HeadNorms::before) x = normed(m, norm_name, x);
  rotate_head(x, position, a);
  if (a.norms == HeadNorms::after) x = normed(m, norm_name, x);
  if (a.norms == HeadNorms::weightless_after) x = rms(m, "", x);
  return x;
}

/// Softmax-weighted sums of v for attention among the tokens: the heads' outputs, joined. ALiBi only for 2^n heads.
inline Rows mixed(TinyModel& m, const std::string& blk, const std::vector<Rows>& q, const std::vector<Rows>& k,
                  const std::vector<Rows>& v, const Heads& a) {
  Rows y;
  const double scale = 1 / std::sqrt(static_cast<double>(q[0][0].size()));
  for (size_t t = 0; t < q.size(); ++t) {
    Vec out;
    for (size_t h = 0; h < q[t].size(); ++h) {
      const size_t kv = h / (q[t].size() / k[t].size());
      Vec head(v[0][0].size(), 0.0);
      double sum = a.has_sinks ? std::exp(double{weight(m, blk + "attn_sinks.weight", {a.n})[h]}) : 0.0;
      for (size_t s = 0; s < (a.is_causal ? t + 1 : q.size()); ++s) {
        const auto distance = std::abs(static_cast<int64_t>(t) - static_cast<int64_t>(s));
        if ((a.window > 0 && distance >= a.window) || (a.sees && !a.sees(t, kv, s))) continue;
        const double slope = std::exp2(-a.max_alibi * static_cast<double>(h + 1) / static_cast<double>(q[t].size()));
        const double score = scale * std::inner_product(q[t][h].begin(), q[t][h].end(), k[s][kv].begin(), 0.0);
        const double p = std::exp(score - (a.max_alibi > 0 ? slope * static_cast<double>(distance) : 0.0));
        sum += p;
        head = plus(head, v[s][kv], p);
      }
      for (const double value : head) out.push_back(value / sum);
    }
    y.push_back(out);
  }
  return y;
}

/// Attention on normed x, before the output projection.
inline Rows heads_outputs(TinyModel& m, const std::string& blk, const Rows& x, const Heads& a, bool is_fused = false) {
  std::vector<Rows> qs, ks, vs;  // by token and head
  for (size_t t = 0; t < x.size(); ++t) {
    const int64_t n_q = a.n * a.dim, n_k = a.n_kv * a.dim, n_v = a.n_kv * a.v_dim;
    Vec q, k, v;
    if (is_fused) {
      const Vec all = product(m, blk + "attn_qkv", x[t], n_q + n_k + n_v);
      q = part(all, 0, n_q), k = part(all, n_q, n_k), v = part(all, n_q + n_k, n_v);
    } else {
      q = product(m, blk + "attn_q", x[t], n_q);
      k = product(m, blk + "attn_k", x[t], n_k);
      v = product(m, blk + "attn_v", x[t], n_v);
    }
    Rows q_heads, k_heads, v_heads;
    for (int64_t h = 0; h < a.n; ++h)
      q_heads.push_back(head_of(m, blk + "attn_q_norm.weight", part(q, h * a.dim, a.dim), t, a));
    for (int64_t h = 0; h < a.n_kv; ++h) {
      k_heads.push_back(head_of(m, blk + "attn_k_norm.weight", part(k, h * a.dim, a.dim), t, a));
      v_heads.push_back(part(v, h * a.v_dim, a.v_dim));
    }
    qs.push_back(q_heads), ks.push_back(k_heads), vs.push_back(v_heads);
  }
  Rows y = mixed(m, blk, qs, ks, vs, a);
  for (size_t t = 0; t < x.size() && a.gates != Gates::none; ++t) {
    const bool is_of_heads = a.gates != Gates::sigmoid_of_elements;
    const Vec gate = product(m, blk + "attn_gate", x[t], is_of_heads ? a.n : a.n * a.v_dim);
    for (size_t i = 0; i < y[t].size(); ++i) {
      const double g = gate[is_of_heads ? i / static_cast<size_t>(a.v_dim) : i];
      y[t][i] *= a.gates == Gates::softplus_of_heads ? softplus(g) : sigmoid(g);
    }
  }
  return y;
}

inline Rows attended(TinyModel& m, const std::string& blk, const Rows& x, const Heads& a, bool is_fused = false) {
  return each(heads_outputs(m, blk, x, a, is_fused),
              [&](const Vec& row) { return product(m, blk + "attn_output", row, kWidth); });
}

inline double relu_squared(double x) { return x > 0 ? x * x : 0.0; }

/// down(act(gate x) * up x), or down(act(up x)), with names such as "ffn_{}_shexp".
inline Vec block_of(TinyModel& m, const std::string& names, const Vec& x, int64_t n_ff, double (*act)(double) = silu,
                    bool has_gate = true, int64_t n_matrices = 1, int64_t matrix = 0, double limit = 0.0) {
  const auto name = [&](const char* which) { return fmt::format(fmt::runtime(names), which); };
  Vec h = product(m, name("up"), x, n_ff, n_matrices, matrix);
  if (has_gate) {
    Vec gate = product(m, name("gate"), x, n_ff, n_matrices, matrix);
    for (double& g : gate) g = limit > 0 ? std::min(act(g), limit) : act(g);
    for (double& u : h) u = limit > 0 ? std::clamp(u, -limit, limit) : u;
    h = times(h, gate);
  } else {
    for (double& value : h) value = act(value);
  }
  return product(m, name("down"), h, static_cast<int64_t>(x.size()), n_matrices, matrix);
}

inline constexpr int64_t kNExperts = 4, kNUsed = 2, kNFf = 20, kNFfExperts = 10;

struct Mixture {
  bool is_sigmoid = false, normalize = true, has_selection_bias = false, has_gate = true;
  double scale = 1.0;
  double (*act)(double) = silu;
  int64_t n_ff = kNFfExperts;
  double limit = 0.0;  // > 0: of act(gate) from above, and of up
};

/// Experts on `x`, chosen by `routed_by`.
inline Vec mixture(TinyModel& m, const std::string& blk, const Vec& routed_by, const Vec& x, const Mixture& rules) {
  Vec p = product(m, blk + "ffn_gate_inp", routed_by, kNExperts);
  double sum = 0;
  for (double& v : p) sum += v = rules.is_sigmoid ? sigmoid(v) : std::exp(v);
  if (!rules.is_sigmoid)
    for (double& v : p) v /= sum;
  Vec chosen_by = p;
  if (rules.has_selection_bias) {
    const auto& bias = weight(m, blk + "exp_probs_b.bias", {kNExperts}, 0.5f);
    for (size_t i = 0; i < p.size(); ++i) chosen_by[i] += bias[i];
  }
  std::vector<size_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::ranges::stable_sort(ids, std::greater{}, [&](size_t id) { return chosen_by[id]; });
  ids.resize(kNUsed);
  double total = 0;
  for (const size_t id : ids) total += p[id];
  Vec y(x.size(), 0.0);
  for (const size_t id : ids)
    y = plus(y,
             block_of(m, blk + "ffn_{}_exps", x, rules.n_ff, rules.act, rules.has_gate, kNExperts,
                      static_cast<int64_t>(id), rules.limit),
             rules.scale * p[id] / (rules.normalize ? total : 1.0));
  return y;
}

/// A model of n layers with the keys of the heads.
inline TinyModel tiny_model(const std::string& architecture, int64_t n_layers, const Heads& a) {
  TinyModel m(architecture, n_layers);
  m.key("attention.head_count", a.n);
  m.key("attention.head_count_kv", a.n_kv);
  m.key("attention.key_length", a.dim);
  m.key("attention.value_length", a.v_dim);
  m.key("rope.dimension_count", a.n_rot);
  m.key("feed_forward_length", kNFf);
  return m;
}

inline void set_expert_keys(TinyModel& m) {
  m.key("expert_count", kNExperts);
  m.key("expert_used_count", kNUsed);
  m.key("expert_feed_forward_length", kNFfExperts);
}

inline Rows output_logits(TinyModel& m, const Rows& x) {
  return each(all_normed(m, "output_norm.weight", x),
              [&](const Vec& row) { return product(m, "output", row, kVocab); });
}

using Formula = std::function<Rows(TinyModel&, Rows)>;  // from embeddings to logits

/// Compares the first n_logits of each of n_tokens tokens.
inline void expect_formula(TinyModel& m, const Formula& formula, size_t n_logits = kVocab, int32_t n_tokens = kTokens) {
  formula(m, embedded(m, std::vector<int32_t>{1, 2, 3}));
  const auto reference = [&](const TinyModel&, std::span<const int32_t> tokens) {
    return formula(m, embedded(m, tokens));
  };
  check(m, reference, 1e-11, n_logits, n_tokens);
}

}  // namespace tessera::testing::tiny
