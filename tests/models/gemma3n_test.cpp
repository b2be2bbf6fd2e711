// gemma3n as a tiny file of random weights. Logits are compared with the formulas in double precision.
#include <numbers>

#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int64_t kGemma3nLayers = 22, kGemma3nPerLayer = 5, kGemma3nRank = 3, kGemma3nWindow = 5;

// Measured: 2e-10. An embedding that differs in the last bit already changes logits by 3e-10, since scores are large.
constexpr double kDeepBound = 1e-9;

double length_of(const Vec& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

Vec scaled(Vec x, double factor) {
  for (double& v : x) v *= factor;
  return x;
}

/// tanh(router (norm(x) / n)).
Vec routed_by(TinyModel& m, const std::string& blk, const Vec& x) {
  const Vec n = scaled(normed(m, blk + "altup_router_norm.weight", x), 1.0 / static_cast<double>(kWidth));
  Vec y = product(m, blk + "altup_router", n, 4);
  for (double& v : y) v = std::tanh(v);
  return y;
}

Vec sparse_block(TinyModel& m, const std::string& blk, const Vec& x, bool is_sparse) {
  Vec gate = product(m, blk + "ffn_gate", x, kNFf);
  const Vec up = product(m, blk + "ffn_up", x, kNFf);
  if (is_sparse) {
    const double mean = std::accumulate(gate.begin(), gate.end(), 0.0) / static_cast<double>(kNFf);
    double variance = 0;
    for (const double g : gate) variance += (g - mean) * (g - mean) / static_cast<double>(kNFf - 1);
    for (double& g : gate) g = std::max(0.0, g - mean - 1.6448533535 * std::sqrt(variance));
  }
  for (double& g : gate) g = gelu(g);
  return product(m, blk + "ffn_down", times(gate, up), kWidth);
}

/// K and V of layers 18 and 19, by token and head.
struct SharedKv {
  std::vector<Rows> k, v;
};

/// Attention with scores that are not scaled, and normed V. Layers from 20 on use K and V of 18 or 19.
Rows gemma3n_attention(TinyModel& m, int64_t il, const Rows& x, const Heads& a, std::map<int64_t, SharedKv>& stored) {
  const std::string blk = block(il);
  if (il < 20) {
    SharedKv& kv = stored[il];
    for (size_t t = 0; t < x.size(); ++t) {
      const Vec k = product(m, blk + "attn_k", x[t], a.n_kv * a.dim),
                v = product(m, blk + "attn_v", x[t], a.n_kv * a.dim);
      kv.k.emplace_back(), kv.v.emplace_back();
      for (int64_t h = 0; h < a.n_kv; ++h) {
        kv.k[t].push_back(head_of(m, blk + "attn_k_norm.weight", part(k, h * a.dim, a.dim), t, a));
        kv.v[t].push_back(rms(m, "", part(v, h * a.dim, a.dim)));
      }
    }
  }
  std::vector<Rows> qs;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec q = product(m, blk + "attn_q", x[t], a.n * a.dim);
    qs.emplace_back();
    for (int64_t h = 0; h < a.n; ++h)  // mixed() divides scores by the root of the head size
      qs[t].push_back(scaled(head_of(m, blk + "attn_q_norm.weight", part(q, h * a.dim, a.dim), t, a),
                             std::sqrt(static_cast<double>(a.dim))));
  }
  const SharedKv& kv = stored.at(il < 20 ? il : a.window > 0 ? 18 : 19);
  return each(mixed(m, blk, qs, kv.k, kv.v, a),
              [&](const Vec& row) { return product(m, blk + "attn_output", row, kWidth); });
}

/// The streams of a token after a layer: `p` are the predicted ones, `attended` is the result of attention on n.
Rows finished(TinyModel& m, int64_t il, const Rows& p, const Vec& n, const Vec& attended, const Vec& per_layer) {
  const std::string blk = block(il);
  const Vec small = product(m, blk + "laurel_l", n, kGemma3nRank);
  const Vec laurel = plus(n, normed(m, blk + "laurel_post_norm.weight", product(m, blk + "laurel_r", small, kWidth)));
  const Vec y = normed(m, blk + "post_attention_norm.weight", attended);
  const Vec u = scaled(plus(plus(p[0], y), laurel), 1 / std::numbers::sqrt2);
  const Vec f = plus(
      u, normed(m, blk + "post_ffw_norm.weight", sparse_block(m, blk, normed(m, blk + "ffn_norm.weight", u), il < 10)));
  const Vec error = plus(f, p[0], -1.0), weights = product(m, blk + "altup_correct_coef", routed_by(m, blk, f), 4);
  Rows c;
  for (size_t i = 0; i < 4; ++i) c.push_back(plus(p[i], error, 1 + weights[i]));
  const auto& scales = weight(m, blk + "altup_correct_scale.weight", {kWidth}, 0.5f, 1.0f);
  Vec gate = product(m, blk + "inp_gate", times(c[0], Vec(scales.begin(), scales.end())), kGemma3nPerLayer);
  for (double& g : gate) g = gelu(g);
  const Vec more = normed(m, blk + "post_norm.weight", product(m, blk + "proj", times(gate, per_layer), kWidth));
  for (size_t i = 1; i < 4; ++i) c[i] = plus(c[i], more);
  return c;
}

Rows gemma3n_formula(TinyModel& m, const std::vector<int32_t>& tokens) {
  const double root = std::sqrt(static_cast<double>(kWidth));
  Heads full{.dim = 8, .base = 700.0, .norms = HeadNorms::before};
  Heads windowed = full;
  windowed.base = 10000.0, windowed.window = kGemma3nWindow;
  std::vector<Rows> x, per_layers;  // by token: streams, and vectors of layers
  const auto& table = weight(m, "per_layer_token_embd.weight", {kGemma3nPerLayer * kGemma3nLayers, kVocab});
  const Rows embeddings = embedded(m, tokens);
  for (size_t t = 0; t < tokens.size(); ++t) {
    Rows streams{scaled(embeddings[t], root)};
    for (int64_t i = 0; i < 3; ++i) {
      weight(m, "altup_proj.weight", {kWidth, kWidth, 3});
      const Vec y = mul(m, "altup_proj.weight", streams[0], i);
      streams.push_back(scaled(y, length_of(streams[0]) / length_of(y)));
    }
    const Vec projected =
        scaled(product(m, "per_layer_model_proj", streams[0], kGemma3nPerLayer * kGemma3nLayers), 1 / root);
    Rows vectors;
    for (int64_t il = 0; il < kGemma3nLayers; ++il) {
      const Vec p = normed(m, "per_layer_proj_norm.weight", part(projected, il * kGemma3nPerLayer, kGemma3nPerLayer));
      const auto first = table.begin() + (tokens[t] * kGemma3nLayers + il) * kGemma3nPerLayer;
      vectors.push_back(scaled(plus(p, Vec(first, first + kGemma3nPerLayer), std::sqrt(double{kGemma3nPerLayer})),
                               1 / std::numbers::sqrt2));
    }
    x.push_back(streams), per_layers.push_back(vectors);
  }
  std::map<int64_t, SharedKv> stored;
  for (int64_t il = 0; il < kGemma3nLayers; ++il) {
    const std::string blk = block(il);
    Rows n;
    for (Rows& streams : x) {
      const Vec weights = product(m, blk + "altup_predict_coef", routed_by(m, blk, streams[0]), 16);
      Rows p = streams;
      for (size_t i = 0; i < 4; ++i)
        for (size_t k = 0; k < 4; ++k) p[i] = plus(p[i], streams[k], weights[k + 4 * i]);
      streams = p;
      n.push_back(normed(m, blk + "attn_norm.weight", p[0]));
    }
    const Rows y = gemma3n_attention(m, il, n, il % 5 == 4 ? full : windowed, stored);
    for (size_t t = 0; t < x.size(); ++t)
      x[t] = finished(m, il, x[t], n[t], y[t], per_layers[t][static_cast<size_t>(il)]);
  }
  Rows logits;
  for (const Rows& streams : x) {
    Vec sum = streams[0];
    for (int64_t i = 0; i < 3; ++i) {
      weight(m, "altup_unembd_proj.weight", {kWidth, kWidth, 3});
      const Vec y = mul(m, "altup_unembd_proj.weight", streams[static_cast<size_t>(i + 1)], i);
      sum = plus(sum, y, length_of(streams[0]) / length_of(y));
    }
    Vec row = product(m, "output", normed(m, "output_norm.weight", scaled(sum, 0.25)), kVocab);
    for (double& v : row) v = 30 * std::tanh(v / 30);
    logits.push_back(row);
  }
  return logits;
}

TEST(Gemma3n, LogitsAreWhatTheFormulasSay) {
  TinyModel m = tiny_model("gemma3n", kGemma3nLayers, {});
  m.key("attention.sliding_window", kGemma3nWindow);
  m.key("rope.freq_base", 700.0f);
  m.key("embedding_length_per_layer_input", kGemma3nPerLayer);
  gemma3n_formula(m, {1, 2, 3});
  // Scores are not scaled. Smaller ones keep 22 layers from enlarging rounding errors.
  for (int64_t il = 0; il < kGemma3nLayers; ++il)
    for (float& v : m.weights.at(block(il) + "attn_q_norm.weight")) v *= 0.2f;
  check(
      m,
      [&](const TinyModel&, std::span<const int32_t> tokens) {
        return gemma3n_formula(m, std::vector<int32_t>(tokens.begin(), tokens.end()));
      },
      kDeepBound);
}

TEST(Gemma3n, RefusesOtherKvHeadsInLayersThatShareThem) {
  TinyModel m = tiny_model("gemma3n", kGemma3nLayers, {});
  m.key("attention.sliding_window", kGemma3nWindow);
  m.key("embedding_length_per_layer_input", kGemma3nPerLayer);
  gemma3n_formula(m, {1, 2, 3});
  std::vector<int32_t> heads(static_cast<size_t>(kGemma3nLayers), 2);
  heads[20] = 4;
  m.keys("attention.head_count_kv", heads);
  EXPECT_ERROR(load_engine(m.write("heads.gguf")), "layer 20 has other KV heads than layer 18");
}

}  // namespace
}  // namespace tessera
