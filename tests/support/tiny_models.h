// Tiny model files with random weights, and an independent reference implementation of their parts in double precision,
// token by token. Tests compare the logits of architectures with it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "tests/support/documented_operations.h"
#include "tests/support/engine_support.h"
#include "tests/support/random_file.h"

namespace tessera::testing::tiny {

using Vec = std::vector<double>;
using Rows = std::vector<Vec>;  // one per token

inline constexpr int64_t kWidth = 24, kVocab = 40, kTokens = 20;

/// Builds a model file, and provides its weights to the reference.
class TinyModel : public RandomFile {
 public:
  TinyModel(std::string architecture, int64_t n_layers, uint64_t seed = 1, int64_t n_vocab = kVocab)
      : RandomFile(std::move(architecture), seed) {
    builder.set("tokenizer.ggml.model", "none");
    key("vocab_size", n_vocab);
    key("context_length", 128);
    key("embedding_length", kWidth);
    key("block_count", n_layers);
    key("attention.layer_norm_rms_epsilon", 1e-5f);
    key("attention.layer_norm_epsilon", 1e-5f);
    add("token_embd.weight", {kWidth, n_vocab});
    add("output.weight", {kWidth, n_vocab});
  }

  void key(const std::string& name, int64_t value) {
    builder.set(architecture() + "." + name, static_cast<uint32_t>(value));
  }
  void key(const std::string& name, int value) { key(name, int64_t{value}); }
  void key(const std::string& name, float value) { builder.set(architecture() + "." + name, value); }
  void key(const std::string& name, bool value) { builder.set(architecture() + "." + name, value); }
  void keys(const std::string& name, const std::vector<int32_t>& values) {
    builder.set_array(architecture() + "." + name, values);
  }

  void norm(const std::string& name, const Shape& shape) { add(name + ".weight", shape, 0.3f, 1.0f); }

  bool has(const std::string& name) const { return weights.contains(name); }
  double at(const std::string& name, int64_t i) const { return weights.at(name)[static_cast<size_t>(i)]; }
};

// --- the formulas, in double

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
inline double softplus(double x) { return std::log1p(std::exp(x)); }

/// Row `expert` of a stack of matrices [n_in, n_out, n_experts] times x.
inline Vec mul(const TinyModel& m, const std::string& name, const Vec& x, int64_t expert = 0) {
  const Shape& shape = m.shapes.at(name);
  Vec y(static_cast<size_t>(shape[1]), 0.0);
  for (int64_t o = 0; o < shape[1]; ++o)
    for (int64_t i = 0; i < shape[0]; ++i)
      y[static_cast<size_t>(o)] += m.at(name, (expert * shape[1] + o) * shape[0] + i) * x[static_cast<size_t>(i)];
  return y;
}

inline Vec plus(Vec a, const Vec& b, double factor = 1.0) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
inline Vec times(Vec a, const Vec& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}
inline Vec part(const Vec& x, int64_t begin, int64_t n) { return Vec(x.begin() + begin, x.begin() + begin + n); }
inline Vec vector_of(const TinyModel& m, const std::string& name) {
  return Vec(m.weights.at(name).begin(), m.weights.at(name).end());
}

/// x / rms(x), times a weight if there is one of this name.
inline Vec rms(const TinyModel& m, const std::string& name, Vec x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + double{1e-5f});
  for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * (name.empty() ? 1.0 : m.at(name, static_cast<int64_t>(i)));
  return x;
}

inline Vec layer_norm(Vec x, double eps) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  double variance = 0;
  for (double& v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  for (double& v : x) v = (v - mean) / std::sqrt(variance + eps);
  return x;
}
inline Vec layer_norm(const TinyModel& m, const std::string& name, const Vec& x) {
  return plus(times(layer_norm(x, double{1e-5f}), vector_of(m, name + ".weight")), vector_of(m, name + ".bias"));
}

/// Per-channel convolution over the last inputs, with an optional bias.
inline Rows conv(const TinyModel& m, const std::string& name, const Rows& x) {
  const int64_t width = m.shapes.at(name + ".weight")[0], n = m.shapes.at(name + ".weight")[1];
  Rows y;
  for (int64_t t = 0; t < static_cast<int64_t>(x.size()); ++t) {
    Vec row(static_cast<size_t>(n));
    for (int64_t c = 0; c < n; ++c) {
      double sum = m.has(name + ".bias") ? m.at(name + ".bias", c) : 0;
      for (int64_t j = 0; j < width; ++j)
        if (const int64_t from = t - (width - 1) + j; from >= 0)
          sum += m.at(name + ".weight", c * width + j) * x[static_cast<size_t>(from)][static_cast<size_t>(c)];
      row[static_cast<size_t>(c)] = sum;
    }
    y.push_back(std::move(row));
  }
  return y;
}

inline Vec ffn(const TinyModel& m, const std::string& names, const Vec& x) {  // names with {} for gate, up, down
  const auto name = [&](const char* which) { return fmt::format(fmt::runtime(names), which); };
  Vec h = mul(m, name("gate"), x);
  for (double& v : h) v = silu(v);
  return mul(m, name("down"), times(h, mul(m, name("up"), x)));
}

struct RouterRules {
  int64_t n_used = 2;
  bool normalize = true, is_sigmoid = false;
};

inline Vec experts(const TinyModel& m, const std::string& blk, const Vec& x, const RouterRules& rules) {
  Vec p = mul(m, blk + "ffn_gate_inp.weight", x);
  double sum = 0;
  for (double& v : p) sum += v = rules.is_sigmoid ? sigmoid(v) : std::exp(v);
  if (!rules.is_sigmoid)
    for (double& v : p) v /= sum;
  std::vector<int64_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](int64_t id) {
    return p[static_cast<size_t>(id)] + (m.has(blk + "exp_probs_b.bias") ? m.at(blk + "exp_probs_b.bias", id) : 0.0);
  };
  std::ranges::stable_sort(ids, std::greater{}, score);
  ids.resize(static_cast<size_t>(rules.n_used));
  double total = 0;
  for (const int64_t id : ids) total += p[static_cast<size_t>(id)];
  Vec y(x.size(), 0.0);
  for (const int64_t id : ids) {
    Vec h = mul(m, blk + "ffn_gate_exps.weight", x, id);
    for (double& v : h) v = silu(v);
    h = times(h, mul(m, blk + "ffn_up_exps.weight", x, id));
    const double weight = p[static_cast<size_t>(id)] / (rules.normalize ? total : 1.0);
    y = plus(y, mul(m, blk + "ffn_down_exps.weight", h, id), weight);
  }
  return y;
}

struct AttentionRules {
  int64_t n_heads = 2, n_heads_kv = 1, dim = 8;
  int64_t n_rot = 0;  // 0: no rope
  bool is_adjacent = false;
  bool has_norms = false, has_gate = false;
  double scale = 1 / std::sqrt(8.0);
  double base = 10000.0;
  Vec factors{};  // divisors of the angles of pairs; empty: 1
};

inline void rotate(double* x, int64_t position, const AttentionRules& a) {
  for (int64_t i = 0; i < a.n_rot / 2; ++i) {
    double angle =
        static_cast<double>(position) * std::pow(a.base, -2.0 * static_cast<double>(i) / static_cast<double>(a.n_rot));
    if (!a.factors.empty()) angle /= a.factors[static_cast<size_t>(i)];
    double& p = x[a.is_adjacent ? 2 * i : i];
    double& q = x[a.is_adjacent ? 2 * i + 1 : i + a.n_rot / 2];
    const double first = p * std::cos(angle) - q * std::sin(angle);
    q = p * std::sin(angle) + q * std::cos(angle);
    p = first;
  }
}

inline Rows attention(const TinyModel& m, const std::string& blk, const Rows& x, const AttentionRules& a) {
  std::vector<Rows> ks, vs;  // by token and head
  Rows y;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec q_all = mul(m, blk + "attn_q.weight", x[t]), k = mul(m, blk + "attn_k.weight", x[t]),
              v = mul(m, blk + "attn_v.weight", x[t]);
    Rows k_heads, v_heads;
    for (int64_t h = 0; h < a.n_heads_kv; ++h) {
      Vec head = part(k, h * a.dim, a.dim);
      if (a.has_norms) head = rms(m, blk + "attn_k_norm.weight", head);
      rotate(head.data(), static_cast<int64_t>(t), a);
      k_heads.push_back(head);
      v_heads.push_back(part(v, h * a.dim, a.dim));
    }
    ks.push_back(k_heads);
    vs.push_back(v_heads);
    Vec out;
    for (int64_t h = 0; h < a.n_heads; ++h) {
      const int64_t stride = a.has_gate ? 2 * a.dim : a.dim;
      Vec q = part(q_all, h * stride, a.dim);
      if (a.has_norms) q = rms(m, blk + "attn_q_norm.weight", q);
      rotate(q.data(), static_cast<int64_t>(t), a);
      const auto kv = static_cast<size_t>(h / (a.n_heads / a.n_heads_kv));
      Vec head(static_cast<size_t>(a.dim), 0.0);
      double sum = 0;
      for (size_t s = 0; s <= t; ++s) {
        const double weight = std::exp(a.scale * std::inner_product(q.begin(), q.end(), ks[s][kv].begin(), 0.0));
        sum += weight;
        head = plus(head, vs[s][kv], weight);
      }
      for (int64_t d = 0; d < a.dim; ++d)
        out.push_back(head[static_cast<size_t>(d)] / sum *
                      (a.has_gate ? sigmoid(q_all[static_cast<size_t>(h * stride + a.dim + d)]) : 1.0));
    }
    y.push_back(mul(m, blk + "attn_output.weight", out));
  }
  return y;
}

inline void add_attention(TinyModel& m, const std::string& blk, const AttentionRules& a) {
  m.add(blk + "attn_q.weight", {kWidth, a.n_heads * a.dim * (a.has_gate ? 2 : 1)});
  m.add(blk + "attn_k.weight", {kWidth, a.n_heads_kv * a.dim});
  m.add(blk + "attn_v.weight", {kWidth, a.n_heads_kv * a.dim});
  m.add(blk + "attn_output.weight", {a.n_heads * a.dim, kWidth});
  if (!a.has_norms) return;
  m.norm(blk + "attn_q_norm", {a.dim});
  m.norm(blk + "attn_k_norm", {a.dim});
}

inline void add_ffn(TinyModel& m, const std::string& blk, const char* suffix, int64_t n_ff) {
  m.add(blk + "ffn_gate" + suffix + ".weight", {kWidth, n_ff});
  m.add(blk + "ffn_up" + suffix + ".weight", {kWidth, n_ff});
  m.add(blk + "ffn_down" + suffix + ".weight", {n_ff, kWidth});
}

inline constexpr int64_t kExperts = 4;

inline void add_experts(TinyModel& m, const std::string& blk, int64_t n_ff) {
  m.add(blk + "ffn_gate_inp.weight", {kWidth, kExperts});
  m.add(blk + "ffn_gate_exps.weight", {kWidth, n_ff, kExperts});
  m.add(blk + "ffn_up_exps.weight", {kWidth, n_ff, kExperts});
  m.add(blk + "ffn_down_exps.weight", {n_ff, kWidth, kExperts});
}

inline std::string block(int64_t il) { return fmt::format("blk.{}.", il); }

inline Rows each(const Rows& x, const std::function<Vec(const Vec&)>& f) {
  Rows y;
  for (const Vec& row : x) y.push_back(f(row));
  return y;
}
inline Rows each_plus(const Rows& x, const Rows& y, double factor = 1.0) {
  Rows sum;
  for (size_t t = 0; t < x.size(); ++t) sum.push_back(plus(x[t], y[t], factor));
  return sum;
}

inline Rows embedded(const TinyModel& m, std::span<const int32_t> tokens) {
  Rows x;
  for (const int32_t token : tokens) x.push_back(part(vector_of(m, "token_embd.weight"), token * kWidth, kWidth));
  return x;
}

inline Rows logits_of_rms(const TinyModel& m, const Rows& x, const std::string& norm_name = "output_norm.weight") {
  return each(x, [&](const Vec& row) { return mul(m, "output.weight", rms(m, norm_name, row)); });
}

// --- the check

using Reference = std::function<Rows(const TinyModel&, std::span<const int32_t>)>;

/// Compares the first n_logits of each of n_tokens tokens.
inline void check(TinyModel& m, const Reference& reference, double bound = 1e-11, size_t n_logits = kVocab,
                  int32_t n_tokens = kTokens) {
  const std::string path = m.write("tiny.gguf");
  expect_documented(path, "formulas");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  const auto open = [&](int64_t n_ubatch, int n_threads) {
    return Session::create(engine, {.n_ctx = std::max(128, 2 * n_tokens + 64),
                                    .n_ubatch = n_ubatch,
                                    .n_sequences = 2,
                                    .n_outputs = n_tokens,
                                    .type_k = DType::f32,
                                    .type_v = DType::f32,
                                    .threads = {.n_threads = n_threads}});
  };
  const auto tokens = token_ids(*engine, n_tokens), other = token_ids(*engine, n_tokens, 7);
  ASSERT_OK_AND_ASSIGN(const auto session, open(512, 2));
  ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, tokens));
  const Rows expected = reference(m, tokens);
  double error = 0, power = 0;
  for (size_t t = 0; t < expected.size(); ++t)
    for (size_t i = 0; i < n_logits; ++i) {
      const double difference = logits[t * kVocab + i] - expected[t][i];
      error += difference * difference;
      power += expected[t][i] * expected[t][i];
    }
  // Sums of f32 products of a few layers: squares of relative errors of about 1e-7.
  EXPECT_LE(error / power, bound);
  EXPECT_GT(power, 1);

  for (const auto& [n_ubatch, n_threads] : {std::pair<int64_t, int>{1, 1}, {3, 2}, {7, 3}}) {
    ASSERT_OK_AND_ASSIGN(const auto pieces, open(n_ubatch, n_threads));
    ASSERT_OK_AND_ASSIGN(const auto same, logits_of(*pieces, tokens));
    EXPECT_TRUE(same_bits(same, logits)) << n_ubatch << " per micro-batch";
    ASSERT_OK(pieces->clear());
    Batch batch;
    for (int32_t p = 0; p < n_tokens; ++p) {
      batch.add({.token = other[static_cast<size_t>(p)], .position = p, .sequence = 0});
      batch.add({.token = tokens[static_cast<size_t>(p)], .position = p, .sequence = 1, .wants_logits = true});
    }
    ASSERT_OK(pieces->decode(batch));
    EXPECT_TRUE(same_bits(all_rows(*pieces), logits)) << n_ubatch << " per micro-batch, beside another sequence";
  }
  // Logits for one token only: the states of the others must be updated all the same.
  ASSERT_OK(session->clear());
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens).first(tokens.size() - 1), 0, 0)));
  ASSERT_OK(session->decode(Batch::prompt(std::span(tokens).last(1), n_tokens - 1, 0)));
  EXPECT_TRUE(same_bits(session->logits(0), std::span(logits).last(kVocab)));
}

}  // namespace tessera::testing::tiny
