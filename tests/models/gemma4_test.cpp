// gemma4 as tiny files of random weights. Logits are compared with the formulas in double precision. Files with
// inconsistent parts are refused.
#include <numbers>

#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int64_t kLayers = 6, kGemma4Ff = 20, kFfExperts = 10, kPerLayer = 5, kGemma4Window = 6, kRotated = 3;
constexpr float kFullBase = 5000.0f;

struct Variant {
  int64_t n_shared = 0;  // number of last layers
  bool has_per_layer = false;
  int64_t first_with_experts = kLayers;
  bool is_gate_in_up = false;
  bool is_k_v = false;  // in layers without a window
  bool has_scales = false;
  bool has_window_rope = false;
  float soft_cap = 30.0f;
};

/// Even layers have a window.
struct Kind {
  bool has_window;
  int64_t n_heads, n_heads_kv, k_dim, v_dim;
};

Kind kind_of(int64_t il, const Variant& v) {
  return il % 2 == 0 ? Kind{true, 2, 1, 8, 10} : Kind{false, 4, 2, 12, v.is_k_v ? 12 : 9};
}

/// The layer whose K and V a layer uses.
int64_t kv_layer(int64_t il, const Variant& v) {
  const int64_t first = kLayers - v.n_shared;
  return il < first ? il : first - (il % 2 == 0 ? 2 : 1);
}

Vec with_rope(Vec x, int64_t position, bool has_window, const Variant& v) {
  const auto dim = static_cast<int64_t>(x.size());
  const int64_t n_rot = has_window && v.has_window_rope ? 4 : dim;
  const double base = has_window ? (v.has_window_rope ? 300.0 : 10000.0) : double{kFullBase};
  for (int64_t i = 0; i < n_rot / 2; ++i) {
    if (!has_window && i >= kRotated) continue;  // angles of the others are divided by 1e30
    const double angle =
        static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(n_rot));
    double& a = x[static_cast<size_t>(i)];
    double& b = x[static_cast<size_t>(i + n_rot / 2)];
    const double first = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = first;
  }
  return x;
}

/// By token and head.
struct Stored {
  std::vector<Rows> k, v;
};

Rows attention(const TinyModel& m, int64_t il, const Rows& x, const Variant& variant, std::vector<Stored>& stored) {
  const Kind kind = kind_of(il, variant);
  const std::string blk = block(il);
  Stored& kv = stored[static_cast<size_t>(kv_layer(il, variant))];
  Rows y;
  for (size_t t = 0; t < x.size(); ++t) {
    const auto position = static_cast<int64_t>(t);
    if (kv_layer(il, variant) == il) {
      const Vec k = mul(m, blk + "attn_k.weight", x[t]);
      const Vec v = m.has(blk + "attn_v.weight") ? mul(m, blk + "attn_v.weight", x[t]) : k;
      Rows k_heads, v_heads;
      for (int64_t h = 0; h < kind.n_heads_kv; ++h) {
        const Vec normed = rms(m, blk + "attn_k_norm.weight", part(k, h * kind.k_dim, kind.k_dim));
        k_heads.push_back(with_rope(normed, position, kind.has_window, variant));
        v_heads.push_back(rms(m, "", part(v, h * kind.v_dim, kind.v_dim)));
      }
      kv.k.push_back(k_heads);
      kv.v.push_back(v_heads);
    }
    const Vec q_all = mul(m, blk + "attn_q.weight", x[t]);
    Vec out;
    for (int64_t h = 0; h < kind.n_heads; ++h) {
      const Vec q = with_rope(rms(m, blk + "attn_q_norm.weight", part(q_all, h * kind.k_dim, kind.k_dim)), position,
                              kind.has_window, variant);
      const auto head_kv = static_cast<size_t>(h / (kind.n_heads / kind.n_heads_kv));
      Vec head(static_cast<size_t>(kind.v_dim), 0.0);
      double sum = 0;
      for (size_t s = kind.has_window && t + 1 > kGemma4Window ? t + 1 - kGemma4Window : 0; s <= t; ++s) {
        const Vec& k = kv.k[s][head_kv];
        const double weight = std::exp(std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
        sum += weight;
        head = plus(head, kv.v[s][head_kv], weight);
      }
      for (const double value : head) out.push_back(value / sum);
    }
    y.push_back(mul(m, blk + "attn_output.weight", out));
  }
  return y;
}

Vec geglu(Vec gate, const Vec& up) {
  for (double& v : gate) v = gelu(v);
  return times(gate, up);
}

Vec chosen_experts(const TinyModel& m, const std::string& blk, const Vec& x, const Vec& routed_by) {
  Vec p = mul(m, blk + "ffn_gate_inp.weight", routed_by);
  for (double& v : p) v = std::exp(v);
  std::vector<int64_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::greater{}, [&](int64_t id) { return p[static_cast<size_t>(id)]; });
  const double total = p[static_cast<size_t>(ids[0])] + p[static_cast<size_t>(ids[1])];
  Vec y(x.size(), 0.0);
  for (const int64_t id : {ids[0], ids[1]}) {
    Vec gate, up;
    if (m.has(blk + "ffn_gate_up_exps.weight")) {
      const Vec both = mul(m, blk + "ffn_gate_up_exps.weight", x, id);
      gate = part(both, 0, kFfExperts), up = part(both, kFfExperts, kFfExperts);
    } else {
      gate = mul(m, blk + "ffn_gate_exps.weight", x, id), up = mul(m, blk + "ffn_up_exps.weight", x, id);
    }
    const double scale = m.has(blk + "ffn_down_exps.scale") ? m.at(blk + "ffn_down_exps.scale", id) : 1.0;
    y = plus(y, mul(m, blk + "ffn_down_exps.weight", geglu(gate, up), id), scale * p[static_cast<size_t>(id)] / total);
  }
  return y;
}

Vec feed_forward(const TinyModel& m, const std::string& blk, const Vec& x) {
  const Vec n = rms(m, blk + "ffn_norm.weight", x);
  const Vec dense =
      mul(m, blk + "ffn_down.weight", geglu(mul(m, blk + "ffn_gate.weight", n), mul(m, blk + "ffn_up.weight", n)));
  if (!m.has(blk + "ffn_gate_inp.weight")) return dense;
  Vec routed_by = times(rms(m, "", x), vector_of(m, blk + "ffn_gate_inp.scale"));
  for (double& v : routed_by) v /= std::sqrt(static_cast<double>(kWidth));
  const Vec chosen = chosen_experts(m, blk, rms(m, blk + "pre_ffw_norm_2.weight", x), routed_by);
  return plus(rms(m, blk + "post_ffw_norm_1.weight", dense), rms(m, blk + "post_ffw_norm_2.weight", chosen));
}

Rows logits(const TinyModel& m, std::span<const int32_t> tokens, const Variant& variant) {
  Rows x = embedded(m, tokens);
  for (Vec& row : x)
    for (double& v : row) v *= std::sqrt(static_cast<double>(kWidth));
  // By token: rows of all layers, one after another.
  Rows per_layer;
  for (size_t t = 0; variant.has_per_layer && t < x.size(); ++t) {
    const Vec table = vector_of(m, "per_layer_token_embd.weight");
    Vec row = part(table, tokens[t] * kLayers * kPerLayer, kLayers * kPerLayer);
    Vec projected = mul(m, "per_layer_model_proj.weight", x[t]);
    for (double& v : projected) v /= std::sqrt(static_cast<double>(kWidth));
    for (int64_t il = 0; il < kLayers; ++il) {
      const Vec normed = rms(m, "per_layer_proj_norm.weight", part(projected, il * kPerLayer, kPerLayer));
      for (int64_t i = 0; i < kPerLayer; ++i) {
        double& v = row[static_cast<size_t>(il * kPerLayer + i)];
        v = (v * std::sqrt(static_cast<double>(kPerLayer)) + normed[static_cast<size_t>(i)]) / std::numbers::sqrt2;
      }
    }
    per_layer.push_back(row);
  }
  std::vector<Stored> stored(kLayers);
  for (int64_t il = 0; il < kLayers; ++il) {
    const std::string blk = block(il);
    const Rows n = each(x, [&](const Vec& v) { return rms(m, blk + "attn_norm.weight", v); });
    const Rows attended = attention(m, il, n, variant, stored);
    for (size_t t = 0; t < x.size(); ++t) {
      x[t] = plus(x[t], rms(m, blk + "post_attention_norm.weight", attended[t]));
      x[t] = plus(x[t], rms(m, blk + "post_ffw_norm.weight", feed_forward(m, blk, x[t])));
      if (variant.has_per_layer) {
        const Vec gated = geglu(mul(m, blk + "inp_gate.weight", x[t]), part(per_layer[t], il * kPerLayer, kPerLayer));
        x[t] = plus(x[t], rms(m, blk + "post_norm.weight", mul(m, blk + "proj.weight", gated)));
      }
      if (variant.has_scales)
        for (double& v : x[t]) v *= m.at(blk + "layer_output_scale.weight", 0);
    }
  }
  Rows y = logits_of_rms(m, x);
  for (Vec& row : y)
    for (double& v : row) v = double{variant.soft_cap} * std::tanh(v / double{variant.soft_cap});
  return y;
}

TinyModel model_of(const Variant& v) {
  TinyModel m("gemma4", kLayers);
  m.key("attention.sliding_window", kGemma4Window);
  m.key("feed_forward_length", kGemma4Ff);
  std::vector<int32_t> heads, heads_kv;
  for (int64_t il = 0; il < kLayers; ++il) {
    heads.push_back(static_cast<int32_t>(kind_of(il, v).n_heads));
    heads_kv.push_back(static_cast<int32_t>(kind_of(il, v).n_heads_kv));
  }
  m.builder.set_array("gemma4.attention.sliding_window_pattern", std::array{true, false, true, false, true, false});
  m.keys("attention.head_count", heads);
  m.keys("attention.head_count_kv", heads_kv);
  m.key("attention.key_length", kind_of(1, v).k_dim);
  m.key("attention.value_length", kind_of(1, v).v_dim);
  m.key("attention.key_length_swa", kind_of(0, v).k_dim);
  m.key("attention.value_length_swa", kind_of(0, v).v_dim);
  m.key("attention.shared_kv_layers", v.n_shared);
  m.key("rope.freq_base", kFullBase);
  if (v.has_window_rope) {
    m.key("rope.dimension_count_swa", 4);
    m.key("rope.freq_base_swa", 300.0f);
  }
  if (v.soft_cap != 30.0f) m.key("final_logit_softcapping", v.soft_cap);
  if (v.has_per_layer) m.key("embedding_length_per_layer_input", kPerLayer);
  if (v.first_with_experts < kLayers) {
    m.key("expert_count", kExperts);
    m.key("expert_used_count", 2);
    m.key("expert_feed_forward_length", kFfExperts);
  }
  m.set("rope_freqs.weight", {6}, {1, 1, 1, 1e30f, 1e30f, 1e30f});
  m.norm("output_norm", {kWidth});
  if (v.has_per_layer) {
    m.add("per_layer_token_embd.weight", {kPerLayer * kLayers, kVocab});
    m.add("per_layer_model_proj.weight", {kWidth, kPerLayer * kLayers});
    m.norm("per_layer_proj_norm", {kPerLayer});
  }
  for (int64_t il = 0; il < kLayers; ++il) {
    const std::string blk = block(il);
    const Kind kind = kind_of(il, v);
    for (const char* name : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"})
      m.norm(blk + name, {kWidth});
    m.add(blk + "attn_q.weight", {kWidth, kind.n_heads * kind.k_dim});
    m.norm(blk + "attn_q_norm", {kind.k_dim});
    if (kv_layer(il, v) == il) {
      m.add(blk + "attn_k.weight", {kWidth, kind.n_heads_kv * kind.k_dim});
      m.norm(blk + "attn_k_norm", {kind.k_dim});
      if (kind.has_window || !v.is_k_v) m.add(blk + "attn_v.weight", {kWidth, kind.n_heads_kv * kind.v_dim});
    }
    m.add(blk + "attn_output.weight", {kind.n_heads * kind.v_dim, kWidth});
    add_ffn(m, blk, "", kGemma4Ff);
    if (v.has_scales) m.add(blk + "layer_output_scale.weight", {1}, 0.2f, 0.8f);
    if (v.has_per_layer) {
      m.add(blk + "inp_gate.weight", {kWidth, kPerLayer});
      m.add(blk + "proj.weight", {kPerLayer, kWidth});
      m.norm(blk + "post_norm", {kWidth});
    }
    if (il < v.first_with_experts) continue;
    m.add(blk + "ffn_gate_inp.weight", {kWidth, kExperts}, 3.0f);
    m.add(blk + "ffn_gate_inp.scale", {kWidth}, 0.3f, 1.0f);
    for (const char* name : {"post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"}) m.norm(blk + name, {kWidth});
    if (v.is_gate_in_up) {
      m.add(blk + "ffn_gate_up_exps.weight", {kWidth, 2 * kFfExperts, kExperts});
    } else {
      m.add(blk + "ffn_gate_exps.weight", {kWidth, kFfExperts, kExperts});
      m.add(blk + "ffn_up_exps.weight", {kWidth, kFfExperts, kExperts});
    }
    m.add(blk + "ffn_down_exps.weight", {kFfExperts, kWidth, kExperts});
    if (v.has_scales) m.add(blk + "ffn_down_exps.scale", {kExperts}, 0.4f, 1.0f);
  }
  return m;
}

void check_gemma4(const Variant& variant) {
  TinyModel m = model_of(variant);
  // Six layers with norms of as few as five elements: errors of about 5e-6, squared.
  check(
      m, [&](const TinyModel& model, std::span<const int32_t> tokens) { return logits(model, tokens, variant); },
      1e-10);
}

TEST(Gemma4, LayersWithAWindowHaveHeadsAndARopeOfTheirOwn) {
  check_gemma4({});
  check_gemma4({.has_window_rope = true});
}

TEST(Gemma4, TheLastLayersUseKAndVOfEarlierOnes) { check_gemma4({.n_shared = 2}); }

TEST(Gemma4, WithoutVKIsV) { check_gemma4({.n_shared = 2, .is_k_v = true}); }

TEST(Gemma4, LayersHaveAVectorPerTokenOfTheirOwn) {
  check_gemma4({.has_per_layer = true});
  check_gemma4({.n_shared = 2, .has_per_layer = true, .has_scales = true});
}

TEST(Gemma4, ExpertsStandBesideTheDenseBlock) {
  check_gemma4({.first_with_experts = 0});
  check_gemma4({.first_with_experts = 2, .is_gate_in_up = true, .has_scales = true});
}

TEST(Gemma4, TheCapOfLogitsIsAKey) { check_gemma4({.soft_cap = 0.5f}); }

TEST(Gemma4, RefusesKAsVOfAnotherLength) {
  TinyModel m = model_of({.is_k_v = true});
  m.key("attention.value_length", 9);
  m.add("blk.1.attn_output.weight", {4 * 9, kWidth});
  EXPECT_ERROR(load_engine(m.write("lengths.gguf")), "layer 1: K is V too, but their lengths differ");
}

TEST(Gemma4, RefusesKAndVOfALayerOfAnotherKind) {
  TinyModel m = model_of({.n_shared = 3});
  EXPECT_ERROR(load_engine(m.write("kinds.gguf")), "layer 3 uses K and V of layer 2, which is of another kind");
  TinyModel other = model_of({.n_shared = 2});
  other.key("attention.shared_kv_layers", 5);
  EXPECT_ERROR(load_engine(other.write("first.gguf")),
               "key 'gemma4.attention.shared_kv_layers': 5 of 6 layers, want 2 before them");
}

}  // namespace
}  // namespace tessera
