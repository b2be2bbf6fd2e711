// Branches of common decoders that no golden file covers: models of many layers, parallel blocks, norms of heads,
// layers without positions. Logits are compared with one forward pass in double precision that implements all of them.
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int64_t kFf = 20, kWindow = 6;

enum class Order {
  serial,        // x += attention(norm(x)), x += ffn(norm(x))
  side_by_side,  // both inputs are norm(x)
  two_norms,     // the same, with a separate norm for each
  post,          // x += norm(attention(x)), x += norm(ffn(x))
};

struct Rules {
  int64_t n_layers = 2;
  int64_t n_heads = 2, n_heads_kv = 1, dim = 8;
  bool is_rms = false;
  Order order = Order::serial;
  int64_t n_rot = 8;
  bool is_adjacent = false;
  int64_t rope_period = 0;  // > 0: the last layer of each period has no rope
  bool has_window = false;  // in layers with rope
  double max_alibi = 0, clamp = 0;
  bool is_gated = true;  // with SiLU; otherwise GELU
  bool has_biases = false;
  bool is_output_embedding = false;
  double logit_scale = 1;

  bool has_rope(int64_t il) const { return n_rot > 0 && (rope_period == 0 || (il + 1) % rope_period != 0); }
};

Vec linear(const TinyModel& m, const std::string& name, const Vec& x) {
  const Vec y = mul(m, name + ".weight", x);
  return m.has(name + ".bias") ? plus(y, vector_of(m, name + ".bias")) : y;
}

Vec unweighted(const Vec& x, bool is_rms, const TinyModel& m) {
  return is_rms ? rms(m, "", x) : layer_norm(x, double{1e-5f});
}

Vec normed(const TinyModel& m, const std::string& name, const Vec& x, const Rules& r) {
  const Vec y = times(unweighted(x, r.is_rms, m), vector_of(m, name + ".weight"));
  return m.has(name + ".bias") ? plus(y, vector_of(m, name + ".bias")) : y;
}

/// Applies the norm that the shape of its weight implies to all heads of a token: [dim] is the same for each head,
/// [dim, n_heads] has one row per head, and [dim * n_heads] norms all heads together.
Vec heads_normed(const TinyModel& m, const std::string& name, const Vec& x, const Rules& r) {
  if (!m.has(name + ".weight")) return x;
  const Vec weight = vector_of(m, name + ".weight");
  if (m.shapes.at(name + ".weight")[0] == static_cast<int64_t>(x.size()))
    return times(unweighted(x, r.is_rms, m), weight);
  Vec y;
  for (int64_t begin = 0; begin < static_cast<int64_t>(x.size()); begin += r.dim) {
    const int64_t first = static_cast<int64_t>(weight.size()) == r.dim ? 0 : begin;
    const Vec head = times(unweighted(part(x, begin, r.dim), r.is_rms, m), part(weight, first, r.dim));
    y.insert(y.end(), head.begin(), head.end());
  }
  return y;
}

Vec heads_rotated(Vec x, int64_t position, const Rules& r) {
  for (int64_t begin = 0; begin < static_cast<int64_t>(x.size()); begin += r.dim)
    rotate(x.data() + begin, position, {.dim = r.dim, .n_rot = r.n_rot, .is_adjacent = r.is_adjacent});
  return x;
}

Rows attention(const TinyModel& m, int64_t il, const Rows& x, const Rules& r) {
  const std::string blk = block(il);
  const int64_t n_q = r.n_heads * r.dim, n_k = r.n_heads_kv * r.dim;
  Rows ks, vs, y;
  for (size_t t = 0; t < x.size(); ++t) {
    Vec qkv;
    if (m.has(blk + "attn_qkv.weight")) {
      qkv = linear(m, blk + "attn_qkv", x[t]);
    } else {
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
        const Vec values = linear(m, blk + name, x[t]);
        qkv.insert(qkv.end(), values.begin(), values.end());
      }
    }
    if (r.clamp > 0)
      for (double& v : qkv) v = std::clamp(v, -r.clamp, r.clamp);
    Vec q = heads_normed(m, blk + "attn_q_norm", part(qkv, 0, n_q), r);
    Vec k = heads_normed(m, blk + "attn_k_norm", part(qkv, n_q, n_k), r);
    if (r.has_rope(il)) {
      q = heads_rotated(q, static_cast<int64_t>(t), r);
      k = heads_rotated(k, static_cast<int64_t>(t), r);
    }
    ks.push_back(k);
    vs.push_back(part(qkv, n_q + n_k, n_k));
    Vec out;
    for (int64_t h = 0; h < r.n_heads; ++h) {
      const int64_t at = h / (r.n_heads / r.n_heads_kv) * r.dim;
      // ALiBi: a series of powers of two for the largest power of two of heads, then every other term of a finer one.
      const auto n = static_cast<double>(r.n_heads >= 2 ? 2 : 1);
      const double slope = static_cast<double>(h) < n ? std::exp2(-r.max_alibi * static_cast<double>(h + 1) / n)
                                                      : std::exp2(-r.max_alibi / 2 / n);
      Vec head(static_cast<size_t>(r.dim), 0.0);
      double sum = 0;
      const bool has_window = r.has_window && r.has_rope(il);
      for (size_t s = has_window && t + 1 > kWindow ? t + 1 - kWindow : 0; s <= t; ++s) {
        const Vec key = part(ks[s], at, r.dim), mine = part(q, h * r.dim, r.dim);
        double score =
            std::inner_product(mine.begin(), mine.end(), key.begin(), 0.0) / std::sqrt(static_cast<double>(r.dim));
        if (r.max_alibi > 0) score -= slope * static_cast<double>(t - s);
        sum += std::exp(score);
        head = plus(head, part(vs[s], at, r.dim), std::exp(score));
      }
      for (const double v : head) out.push_back(v / sum);
    }
    y.push_back(linear(m, blk + "attn_output", out));
  }
  return y;
}

Vec feed_forward(const TinyModel& m, const std::string& blk, const Vec& x, const Rules& r) {
  Vec h = linear(m, blk + "ffn_up", x);
  if (r.is_gated) {
    Vec gate = linear(m, blk + "ffn_gate", x);
    for (double& v : gate) v = silu(v);
    h = times(gate, h);
  } else {
    for (double& v : h) v = gelu(v);
  }
  if (m.has(blk + "ffn.act.scales"))
    for (size_t i = 0; i < h.size(); ++i) h[i] /= m.at(blk + "ffn.act.scales", static_cast<int64_t>(i));
  return linear(m, blk + "ffn_down", h);
}

Rows forward(const TinyModel& m, std::span<const int32_t> tokens, const Rules& r) {
  Rows x = embedded(m, tokens);
  if (m.has("position_embd.weight"))
    for (size_t t = 0; t < x.size(); ++t)
      x[t] = plus(x[t], part(vector_of(m, "position_embd.weight"), static_cast<int64_t>(t) * kWidth, kWidth));
  for (int64_t il = 0; il < r.n_layers; ++il) {
    const std::string blk = block(il);
    const auto norm = [&](const char* name, const Rows& rows) {
      return each(rows, [&](const Vec& v) { return normed(m, blk + name, v, r); });
    };
    const auto ffn = [&](const Rows& rows) {
      return each(rows, [&](const Vec& v) { return feed_forward(m, blk, v, r); });
    };
    if (r.order == Order::post) {
      x = each_plus(x, norm("post_attention_norm", attention(m, il, x, r)));
      x = each_plus(x, norm("post_ffw_norm", ffn(x)));
    } else if (r.order == Order::serial) {
      x = each_plus(x, attention(m, il, norm("attn_norm", x), r));
      x = each_plus(x, ffn(norm("ffn_norm", x)));
    } else {
      const Rows first = norm("attn_norm", x), second = r.order == Order::two_norms ? norm("ffn_norm", x) : first;
      x = each_plus(each_plus(x, attention(m, il, first, r)), ffn(second));
    }
  }
  return each(x, [&](const Vec& row) {
    Vec y = mul(m, r.is_output_embedding ? "token_embd.weight" : "output.weight", normed(m, "output_norm", row, r));
    for (double& v : y) v *= r.logit_scale;
    return y;
  });
}

// A file with the common parts; q_norm is the shape of attn_q_norm for the given number of heads.
TinyModel model_of(const std::string& architecture, const Rules& r, const std::function<Shape(int64_t)>& q_norm = {},
                   bool is_fused = false) {
  TinyModel m(architecture, r.n_layers);
  m.key("feed_forward_length", kFf);
  m.key("attention.head_count", r.n_heads);
  m.key("attention.head_count_kv", r.n_heads_kv);
  m.key("attention.key_length", r.dim);
  m.key("attention.value_length", r.dim);
  if (r.n_rot > 0) m.key("rope.dimension_count", r.n_rot);
  const auto norm = [&](const std::string& name) {
    m.norm(name, {kWidth});
    if (r.has_biases) m.add(name + ".bias", {kWidth}, 0.3f);
  };
  const auto linear = [&](const std::string& name, int64_t n_in, int64_t n_out) {
    m.add(name + ".weight", {n_in, n_out});
    if (r.has_biases) m.add(name + ".bias", {n_out}, 0.3f);
  };
  norm("output_norm");
  for (int64_t il = 0; il < r.n_layers; ++il) {
    const std::string blk = block(il);
    if (r.order == Order::post) {
      norm(blk + "post_attention_norm");
      norm(blk + "post_ffw_norm");
    } else {
      norm(blk + "attn_norm");
      if (r.order != Order::side_by_side) norm(blk + "ffn_norm");
    }
    const int64_t n_q = r.n_heads * r.dim, n_k = r.n_heads_kv * r.dim;
    if (is_fused) {
      linear(blk + "attn_qkv", kWidth, n_q + 2 * n_k);
    } else {
      linear(blk + "attn_q", kWidth, n_q);
      linear(blk + "attn_k", kWidth, n_k);
      linear(blk + "attn_v", kWidth, n_k);
    }
    linear(blk + "attn_output", n_q, kWidth);
    if (q_norm) {
      m.add(blk + "attn_q_norm.weight", q_norm(r.n_heads), 0.3f, 1.0f);
      m.add(blk + "attn_k_norm.weight", q_norm(r.n_heads_kv), 0.3f, 1.0f);
    }
    if (r.is_gated) linear(blk + "ffn_gate", kWidth, kFf);
    linear(blk + "ffn_up", kWidth, kFf);
    linear(blk + "ffn_down", kFf, kWidth);
  }
  return m;
}

void check_rules(TinyModel& m, const Rules& rules, double bound = 1e-11) {
  check(
      m, [&](const TinyModel& model, std::span<const int32_t> tokens) { return forward(model, tokens, rules); }, bound);
}

TEST(TransformerBranches, CommandROf64LayersNormsEachHeadByItself) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const Rules rules{.n_layers = 64,
                    .n_heads = 4,
                    .n_heads_kv = 2,
                    .order = Order::side_by_side,
                    .is_adjacent = true,
                    .is_output_embedding = true,
                    .logit_scale = 0.0625};
  TinyModel m = model_of("command-r", rules, [](int64_t n_heads) { return Shape{8, n_heads}; });
  m.key("logit_scale", 0.0625f);
  check_rules(m, rules, 1e-10);  // 64 layers
}

TEST(TransformerBranches, CommandROfFewerLayersHasNoNormsOfHeads) {
  const Rules rules{.n_layers = 2, .order = Order::side_by_side, .is_adjacent = true, .is_output_embedding = true};
  TinyModel m = model_of("command-r", rules);
  check_rules(m, rules);
}

TEST(TransformerBranches, Exaone4Of64BlocksHasWindowsAndLayersWithoutPositions) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const Rules rules{.n_layers = 64, .is_rms = true, .order = Order::post, .rope_period = 4, .has_window = true};
  TinyModel m = model_of("exaone4", rules, [](int64_t) { return Shape{8}; });
  m.key("attention.sliding_window", kWindow);
  check_rules(m, rules, 1e-10);  // 64 layers
}

TEST(TransformerBranches, Exaone4OfFewerBlocksSeesEverything) {
  const Rules rules{.n_layers = 5, .is_rms = true, .order = Order::post};
  TinyModel m = model_of("exaone4", rules, [](int64_t) { return Shape{8}; });
  m.key("attention.sliding_window", kWindow);
  check_rules(m, rules);
}

TEST(TransformerBranches, SmolLm3sFourthLayersKnowNoPositions) {
  const Rules rules{.n_layers = 9, .is_rms = true, .is_adjacent = true, .rope_period = 4};
  TinyModel m = model_of("smollm3", rules);
  check_rules(m, rules);
}

TEST(TransformerBranches, StableLmWithoutASecondNormIsSideBySide) {
  for (const bool has_head_norms : {false, true}) {
    const Rules rules{.n_heads = 4, .n_heads_kv = 2, .order = Order::side_by_side, .n_rot = 4};
    TinyModel m = has_head_norms ? model_of("stablelm", rules,
                                            [](int64_t n) {
                                              return Shape{8, n};
                                            })
                                 : model_of("stablelm", rules);
    check_rules(m, rules);
  }
}

TEST(TransformerBranches, StableLmWithASecondNormIsSerial) {
  const Rules rules{.n_rot = 4, .has_biases = true};
  TinyModel m = model_of("stablelm", rules);
  check_rules(m, rules);
}

TEST(TransformerBranches, GptNeoxsKeySaysWhetherBlocksAreSideBySide) {
  for (const Order order : {Order::two_norms, Order::serial}) {
    const Rules rules{.n_heads = 2, .n_heads_kv = 2, .order = order, .n_rot = 4, .is_gated = false, .has_biases = true};
    TinyModel m = model_of("gptneox", rules, {}, true);
    m.key("use_parallel_residual", order == Order::two_norms);
    check_rules(m, rules);
  }
}

TEST(TransformerBranches, MptNormsAllHeadsTogether) {
  for (const bool is_fused : {true, false}) {
    const Rules rules{.n_heads = 3, .n_heads_kv = 3, .n_rot = 0, .max_alibi = 8, .clamp = 0.7, .is_gated = false};
    TinyModel m = model_of(
        "mpt", rules, [](int64_t n_heads) { return Shape{8 * n_heads}; }, is_fused);
    m.key("attention.max_alibi_bias", 8.0f);
    m.key("attention.clamp_kqv", 0.7f);
    m.add("position_embd.weight", {kWidth, 128});
    for (int64_t il = 0; il < 2; ++il) m.add(block(il) + "ffn.act.scales", {kFf}, 0.5f, 1.0f);
    check_rules(m, rules);
  }
}

}  // namespace
}  // namespace tessera
