// Mamba and other models with Mamba layers or short convolutions, where there is no golden file. Logits are compared
// with the formulas in double precision and must have the same bits for any batching of the tokens.
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

struct Mamba1Shape {
  int64_t n = 32, n_state = 6, rank = 3, width = 4;
};

enum class MambaNorms { none, weightless, weighted };

Rows mamba(const TinyModel& m, const std::string& blk, const Rows& x, const Mamba1Shape& s, MambaNorms norms) {
  Rows u, z, y;
  for (const Vec& row : x) {
    const Vec xz = mul(m, blk + "ssm_in.weight", row);
    u.push_back(part(xz, 0, s.n));
    z.push_back(part(xz, s.n, s.n));
  }
  u = conv(m, blk + "ssm_conv1d", u);
  Vec state(static_cast<size_t>(s.n * s.n_state), 0.0);
  for (size_t t = 0; t < x.size(); ++t) {
    for (double& v : u[t]) v = silu(v);
    const Vec all = mul(m, blk + "ssm_x.weight", u[t]);
    const auto normed = [&](const char* name, int64_t begin, int64_t n) {
      const Vec v = part(all, begin, n);
      if (norms == MambaNorms::none) return v;
      return rms(m, norms == MambaNorms::weighted ? blk + name : "", v);
    };
    const Vec low = normed("ssm_dt_norm.weight", 0, s.rank), b = normed("ssm_b_norm.weight", s.rank, s.n_state),
              c = normed("ssm_c_norm.weight", s.rank + s.n_state, s.n_state);
    const Vec dt = plus(mul(m, blk + "ssm_dt.weight", low), vector_of(m, blk + "ssm_dt.bias"));
    Vec out;
    for (int64_t i = 0; i < s.n; ++i) {
      const auto at = static_cast<size_t>(i);
      const double step = softplus(dt[at]);
      double sum = m.at(blk + "ssm_d", i) * u[t][at];
      for (int64_t n = 0; n < s.n_state; ++n) {
        double& e = state[static_cast<size_t>(i * s.n_state + n)];
        e = std::exp(step * m.at(blk + "ssm_a", i * s.n_state + n)) * e + step * u[t][at] * b[static_cast<size_t>(n)];
        sum += e * c[static_cast<size_t>(n)];
      }
      out.push_back(sum * silu(z[t][at]));
    }
    y.push_back(mul(m, blk + "ssm_out.weight", out));
  }
  return y;
}

void add_mamba(TinyModel& m, const std::string& blk, const Mamba1Shape& s, bool has_norms) {
  m.add(blk + "ssm_in.weight", {kWidth, 2 * s.n});
  m.add(blk + "ssm_conv1d.weight", {s.width, s.n});
  m.add(blk + "ssm_conv1d.bias", {s.n});
  m.add(blk + "ssm_x.weight", {s.n, s.rank + 2 * s.n_state});
  m.add(blk + "ssm_dt.weight", {s.rank, s.n});
  m.add(blk + "ssm_dt.bias", {s.n});
  m.add(blk + "ssm_a", {s.n_state, s.n}, 0.9f, -1.5f);
  m.add(blk + "ssm_d", {s.n});
  m.add(blk + "ssm_out.weight", {s.n, kWidth});
  if (!has_norms) return;
  m.norm(blk + "ssm_dt_norm", {s.rank});
  m.norm(blk + "ssm_b_norm", {s.n_state});
  m.norm(blk + "ssm_c_norm", {s.n_state});
}

void set_mamba_keys(TinyModel& m, const Mamba1Shape& s) {
  m.key("ssm.conv_kernel", s.width);
  m.key("ssm.inner_size", s.n);
  m.key("ssm.state_size", s.n_state);
  m.key("ssm.time_step_rank", s.rank);
}

// --- the architectures

TEST(RecurrentModels, FalconMambaNormsWithoutWeights) {
  const Mamba1Shape shape;
  TinyModel m("mamba", 2);
  set_mamba_keys(m, shape);
  m.key("attention.head_count", 0);
  m.key("ssm.dt_b_c_rms", true);
  m.norm("output_norm", {kWidth});
  for (int64_t il = 0; il < 2; ++il) {
    m.norm(block(il) + "attn_norm", {kWidth});
    add_mamba(m, block(il), shape, false);
  }
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens);
    for (int64_t il = 0; il < 2; ++il) {
      const Rows n = each(x, [&](const Vec& v) { return rms(model, block(il) + "attn_norm.weight", v); });
      x = each_plus(x, mamba(model, block(il), n, shape, MambaNorms::weightless));
    }
    return logits_of_rms(model, x);
  });
}

TEST(RecurrentModels, JambaIsMambaAndAttentionWithoutRope) {
  const Mamba1Shape shape;
  const AttentionRules attention_rules;
  TinyModel m("jamba", 3);
  set_mamba_keys(m, shape);
  m.key("attention.head_count", attention_rules.n_heads);
  m.keys("attention.head_count_kv", {0, 1, 0});
  m.key("attention.key_length", attention_rules.dim);
  m.key("attention.value_length", attention_rules.dim);
  m.key("feed_forward_length", 20);
  m.key("expert_count", kExperts);
  m.key("expert_used_count", 2);
  m.norm("output_norm", {kWidth});
  for (int64_t il = 0; il < 3; ++il) {
    const std::string blk = block(il);
    m.norm(blk + "attn_norm", {kWidth});
    m.norm(blk + "ffn_norm", {kWidth});
    il == 1 ? add_attention(m, blk, attention_rules) : add_mamba(m, blk, shape, true);
    il == 0 ? add_experts(m, blk, 20) : add_ffn(m, blk, "", 20);
  }
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens);
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const Rows n = each(x, [&](const Vec& v) { return rms(model, blk + "attn_norm.weight", v); });
      x = each_plus(
          x, il == 1 ? attention(model, blk, n, attention_rules) : mamba(model, blk, n, shape, MambaNorms::weighted));
      x = each_plus(x, each(x, [&](const Vec& v) {
                      const Vec h = rms(model, blk + "ffn_norm.weight", v);
                      return il == 0 ? experts(model, blk, h, {.normalize = false})
                                     : ffn(model, blk + "ffn_{}.weight", h);
                    }));
    }
    return logits_of_rms(model, x);
  });
}

// Granite 4: heads 4 of 8 values in 2 groups, 6 state elements.
Rows mamba2(const TinyModel& m, const std::string& blk, const Rows& x) {
  constexpr int64_t n = 32, heads = 4, groups = 2, n_state = 6, dim = n / heads;
  Rows xbc, y;
  std::vector<Vec> zs, dts;
  for (const Vec& row : x) {
    const Vec all = mul(m, blk + "ssm_in.weight", row);
    zs.push_back(part(all, 0, n));
    xbc.push_back(part(all, n, n + 2 * groups * n_state));
    dts.push_back(part(all, 2 * n + 2 * groups * n_state, heads));
  }
  xbc = conv(m, blk + "ssm_conv1d", xbc);
  Vec state(static_cast<size_t>(n * n_state), 0.0);
  for (size_t t = 0; t < x.size(); ++t) {
    for (double& v : xbc[t]) v = silu(v);
    Vec out;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t h = i / dim, group = h / (heads / groups);
      const double dt = softplus(dts[t][static_cast<size_t>(h)] + m.at(blk + "ssm_dt.bias", h));
      const double in = xbc[t][static_cast<size_t>(i)];
      double sum = m.at(blk + "ssm_d", h) * in;
      for (int64_t e = 0; e < n_state; ++e) {
        double& s = state[static_cast<size_t>(i * n_state + e)];
        s = std::exp(dt * m.at(blk + "ssm_a", h)) * s + dt * in * xbc[t][static_cast<size_t>(n + group * n_state + e)];
        sum += s * xbc[t][static_cast<size_t>(n + (groups + group) * n_state + e)];
      }
      out.push_back(sum * silu(zs[t][static_cast<size_t>(i)]));
    }
    Vec normed;
    for (int64_t g = 0; g < groups; ++g) {
      const Vec row = rms(m, "", part(out, g * n / groups, n / groups));
      for (size_t i = 0; i < row.size(); ++i)
        normed.push_back(row[i] * m.at(blk + "ssm_norm.weight", g * n / groups + static_cast<int64_t>(i)));
    }
    y.push_back(mul(m, blk + "ssm_out.weight", normed));
  }
  return y;
}

void set_mamba2_keys(TinyModel& m) {
  m.key("ssm.conv_kernel", 4);
  m.key("ssm.inner_size", 32);
  m.key("ssm.state_size", 6);
  m.key("ssm.time_step_rank", 4);
  m.key("ssm.group_count", 2);
}

void add_mamba2(TinyModel& m, const std::string& blk) {
  m.add(blk + "ssm_in.weight", {kWidth, 2 * 32 + 24 + 4});
  m.add(blk + "ssm_conv1d.weight", {4, 32 + 24});
  m.add(blk + "ssm_conv1d.bias", {32 + 24});
  m.add(blk + "ssm_dt.bias", {4});
  m.add(blk + "ssm_a", {1, 4}, 0.5f, -1.0f);
  m.add(blk + "ssm_d", {1, 4});
  m.norm(blk + "ssm_norm", {16, 2});
  m.add(blk + "ssm_out.weight", {32, kWidth});
}

void check_granite(bool has_rope, bool has_experts) {
  AttentionRules rules{.n_rot = has_rope ? 8 : 0, .is_adjacent = true, .scale = 0.25};
  TinyModel m("granitehybrid", 2);
  set_mamba2_keys(m);
  m.key("attention.head_count", rules.n_heads);
  m.keys("attention.head_count_kv", {0, 1});
  m.key("attention.key_length", rules.dim);
  m.key("attention.value_length", rules.dim);
  m.key("rope.dimension_count", rules.dim);
  m.key("rope.scaling.finetuned", has_rope);
  m.key("feed_forward_length", 20);
  m.key("embedding_scale", 3.0f);
  m.key("residual_scale", 0.5f);
  m.key("attention.scale", 0.25f);
  m.key("logit_scale", 4.0f);
  if (has_experts) {
    m.key("expert_count", kExperts);
    m.key("expert_used_count", 2);
    m.key("expert_shared_feed_forward_length", 12);
  }
  m.norm("output_norm", {kWidth});
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = block(il);
    m.norm(blk + "attn_norm", {kWidth});
    m.norm(blk + "ffn_norm", {kWidth});
    if (has_experts) {
      add_experts(m, blk, 20);
      add_ffn(m, blk, "_shexp", 12);
    } else {
      add_ffn(m, blk, "", 20);
    }
    if (il == 1) {
      add_attention(m, blk, rules);
      continue;
    }
    add_mamba2(m, blk);
  }
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens);
    for (Vec& row : x) row = plus(row, row, 2.0);
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows n = each(x, [&](const Vec& v) { return rms(model, blk + "attn_norm.weight", v); });
      x = each_plus(x, il == 1 ? attention(model, blk, n, rules) : mamba2(model, blk, n), 0.5);
      x = each_plus(x,
                    each(x,
                         [&](const Vec& v) {
                           const Vec h = rms(model, blk + "ffn_norm.weight", v);
                           if (!has_experts) return ffn(model, blk + "ffn_{}.weight", h);
                           return plus(experts(model, blk, h, {}), ffn(model, blk + "ffn_{}_shexp.weight", h));
                         }),
                    0.5);
    }
    Rows y = logits_of_rms(model, x);
    for (Vec& row : y)
      for (double& v : row) v /= 4;
    return y;
  });
}

// PLaMo 2: heads of 8 values, whose gate and x are adjacent in the input product. The rank of dt is 64 at the least.
constexpr int64_t kPlamoHeads = 3, kPlamoDim = 8, kPlamoStates = 6, kPlamoRank = 64;

Rows plamo_mixer(TinyModel& w, const std::string& blk, const Rows& x) {
  constexpr int64_t n = kPlamoHeads * kPlamoDim;
  Rows u, gates, y;
  for (const Vec& row : x) {
    const Vec all = product(w, blk + "ssm_in", row, 2 * n);
    Vec gate, value;
    for (int64_t h = 0; h < kPlamoHeads; ++h)
      for (int64_t i = 0; i < kPlamoDim; ++i) {
        gate.push_back(all[static_cast<size_t>(2 * h * kPlamoDim + i)]);
        value.push_back(all[static_cast<size_t>((2 * h + 1) * kPlamoDim + i)]);
      }
    gates.push_back(gate), u.push_back(value);
  }
  weight(w, blk + "ssm_conv1d.weight", {4, n});
  u = conv(w, blk + "ssm_conv1d", u);
  Vec state(static_cast<size_t>(n * kPlamoStates), 0.0);
  for (size_t t = 0; t < x.size(); ++t) {
    for (double& v : u[t]) v = silu(v);
    const Vec all = product(w, blk + "ssm_x", u[t], kPlamoRank + 2 * kPlamoStates);
    const Vec b = normed(w, blk + "ssm_b_norm", part(all, 0, kPlamoStates)),
              c = normed(w, blk + "ssm_c_norm", part(all, kPlamoStates, kPlamoStates)),
              low = normed(w, blk + "ssm_dt_norm", part(all, 2 * kPlamoStates, kPlamoRank));
    const auto& bias = weight(w, blk + "ssm_dt.bias", {kPlamoHeads});
    const Vec dt = plus(product(w, blk + "ssm_dt", low, kPlamoHeads), Vec(bias.begin(), bias.end()));
    Vec out;
    for (int64_t i = 0; i < n; ++i) {
      const auto h = static_cast<size_t>(i / kPlamoDim), at = static_cast<size_t>(i);
      const double step = softplus(dt[h]);
      double sum = weight(w, blk + "ssm_d", {kPlamoHeads})[h] * u[t][at];
      const double decay = std::exp(step * weight(w, blk + "ssm_a", {kPlamoHeads}, 0.9f, -1.5f)[h]);
      for (size_t s = 0; s < kPlamoStates; ++s) {
        double& e = state[at * kPlamoStates + s];
        e = decay * e + step * u[t][at] * b[s];
        sum += e * c[s];
      }
      out.push_back(sum * silu(gates[t][at]));
    }
    y.push_back(product(w, blk + "ssm_out", out, kWidth));
  }
  return y;
}

// Norms of heads have a row of weights per head. Nothing is rotated.
Rows plamo_attention(TinyModel& w, const std::string& blk, const Rows& x) {
  const Heads a{.n_kv = 2};
  std::vector<Rows> qs, ks, vs;
  for (const Vec& row : x) {
    const Vec all = product(w, blk + "attn_qkv", row, (a.n + 2 * a.n_kv) * a.dim);
    const auto heads_of = [&](int64_t first, int64_t n, const char* norm) {
      Rows heads;
      for (int64_t h = 0; h < n; ++h) {
        Vec head = part(all, (first + h) * a.dim, a.dim);
        if (norm != nullptr) {
          const auto& scale = weight(w, blk + norm, {a.dim, n}, 0.3f, 1.0f);
          const auto begin = scale.begin() + h * a.dim;
          head = times(rms(w, "", head), Vec(begin, begin + a.dim));
        }
        heads.push_back(head);
      }
      return heads;
    };
    qs.push_back(heads_of(0, a.n, "attn_q_norm.weight"));
    ks.push_back(heads_of(a.n, a.n_kv, "attn_k_norm.weight"));
    vs.push_back(heads_of(a.n + a.n_kv, a.n_kv, nullptr));
  }
  return each(mixed(w, blk, qs, ks, vs, a),
              [&](const Vec& row) { return product(w, blk + "attn_output", row, kWidth); });
}

TinyModel plamo2_model() {
  TinyModel m("plamo2", 3);
  m.keys("attention.head_count", {0, 4, 0});
  m.keys("attention.head_count_kv", {0, 2, 0});
  m.key("attention.key_length", 8);
  m.key("attention.value_length", 8);
  m.key("feed_forward_length", kNFf);
  m.key("ssm.conv_kernel", 4);
  m.key("ssm.inner_size", kPlamoHeads * kPlamoDim);
  m.key("ssm.state_size", kPlamoStates);
  m.key("ssm.time_step_rank", kPlamoHeads);
  m.key("ssm.group_count", 0);
  return m;
}

TEST(RecurrentModels, Plamo2IsMambaWithHeadsAndAttentionWithoutRope) {
  TinyModel m = plamo2_model();
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const Rows n = all_normed(w, blk + "attn_norm.weight", x);
      const Rows y = il == 1 ? plamo_attention(w, blk, n) : plamo_mixer(w, blk, n);
      x = each_plus(x, all_normed(w, blk + "post_attention_norm", y));
      const Rows f = each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
        const Vec both = product(w, blk + "ffn_up", row, 2 * kNFf);
        Vec gate = part(both, 0, kNFf);
        for (double& g : gate) g = silu(g);
        return product(w, blk + "ffn_down", times(gate, part(both, kNFf, kNFf)), kWidth);
      });
      x = each_plus(x, all_normed(w, blk + "post_ffw_norm", f));
    }
    return output_logits(w, x);
  });
}

TEST(RecurrentModels, Plamo2RefusesHeadsThatDoNotDivideTheWidth) {
  TinyModel m = plamo2_model();
  m.key("ssm.time_step_rank", 5);
  EXPECT_ERROR(load_engine(m.write("plamo2.gguf")), "ssm.inner_size 24, ssm.time_step_rank 5: want a multiple");
}

TEST(RecurrentModels, GraniteHybridIsMamba2AndAttention) {
  check_granite(true, false);
  check_granite(false, true);
}

// A mixer, attention, and two feed-forward layers.
void check_nemotron(bool has_experts, int64_t n_latent) {
  const Heads heads{.n_rot = 0};
  TinyModel m = tiny_model(has_experts ? "nemotron_h_moe" : "nemotron_h", 4, heads);
  set_mamba2_keys(m);
  m.keys("attention.head_count_kv", {0, 2, 0, 0});
  m.keys("feed_forward_length", {0, 0, 20, 20});
  if (has_experts) {
    set_expert_keys(m);
    m.key("moe_latent_size", n_latent);
    m.key("expert_shared_feed_forward_length", 12);
    m.key("expert_weights_norm", true);
    m.key("expert_weights_scale", 2.5f);
  }
  add_mamba2(m, block(0));
  const Mixture rules{
      .is_sigmoid = true, .has_selection_bias = true, .has_gate = false, .scale = 2.5, .act = relu_squared};
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 4; ++il) {
      const std::string blk = block(il);
      const Rows n = all_normed(w, blk + "attn_norm.weight", x);
      if (il == 0) x = each_plus(x, mamba2(w, blk, n));
      if (il == 1) x = each_plus(x, attended(w, blk, n, heads));
      if (il < 2) continue;
      x = each_plus(x, each(n, [&](const Vec& row) {
                      if (!has_experts) return block_of(w, blk + "ffn_{}", row, 20, relu_squared, false);
                      const Vec in = n_latent == 0 ? row : product(w, blk + "ffn_latent_down", row, n_latent);
                      const Vec y = mixture(w, blk, row, in, rules);
                      return plus(n_latent == 0 ? y : product(w, blk + "ffn_latent_up", y, kWidth),
                                  block_of(w, blk + "ffn_{}_shexp", row, 12, relu_squared, false));
                    }));
    }
    return output_logits(w, x);
  });
}

TEST(RecurrentModels, NemotronHHasOnePartPerLayer) {
  check_nemotron(false, 0);
  check_nemotron(true, 0);
  check_nemotron(true, 8);
}

TEST(RecurrentModels, Lfm2MoeHasDenseLayersFirst) {
  const AttentionRules rules{.n_rot = 8, .has_norms = true};
  TinyModel m("lfm2moe", 2);
  m.key("shortconv.l_cache", 3);
  m.key("attention.head_count", rules.n_heads);
  m.keys("attention.head_count_kv", {0, 1});
  m.key("attention.key_length", rules.dim);
  m.key("attention.value_length", rules.dim);
  m.key("rope.dimension_count", rules.dim);
  m.key("feed_forward_length", 20);
  m.key("expert_count", kExperts);
  m.key("expert_used_count", 2);
  m.key("expert_feed_forward_length", 10);
  m.key("expert_gating_func", 2);
  m.key("leading_dense_block_count", 1);
  m.norm("token_embd_norm", {kWidth});
  for (int64_t il = 0; il < 2; ++il) {
    m.norm(block(il) + "attn_norm", {kWidth});
    m.norm(block(il) + "ffn_norm", {kWidth});
  }
  m.add("blk.0.shortconv.in_proj.weight", {kWidth, 3 * kWidth});
  m.add("blk.0.shortconv.conv.weight", {3, kWidth});
  m.add("blk.0.shortconv.out_proj.weight", {kWidth, kWidth});
  add_ffn(m, "blk.0.", "", 20);
  add_attention(m, "blk.1.", rules);
  add_experts(m, "blk.1.", 10);
  m.add("blk.1.exp_probs_b.bias", {kExperts});
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens), u, cs;
    for (const Vec& row : x) {
      const Vec bcx = mul(model, "blk.0.shortconv.in_proj.weight", rms(model, "blk.0.attn_norm.weight", row));
      u.push_back(times(part(bcx, 0, kWidth), part(bcx, 2 * kWidth, kWidth)));
      cs.push_back(part(bcx, kWidth, kWidth));
    }
    u = conv(model, "blk.0.shortconv.conv", u);
    for (size_t t = 0; t < x.size(); ++t)
      x[t] = plus(x[t], mul(model, "blk.0.shortconv.out_proj.weight", times(u[t], cs[t])));
    x = each_plus(x, each(x, [&](const Vec& v) {
                    return ffn(model, "blk.0.ffn_{}.weight", rms(model, "blk.0.ffn_norm.weight", v));
                  }));
    const Rows n = each(x, [&](const Vec& v) { return rms(model, "blk.1.attn_norm.weight", v); });
    x = each_plus(x, attention(model, "blk.1.", n, rules));
    x = each_plus(x, each(x, [&](const Vec& v) {
                    return experts(model, "blk.1.", rms(model, "blk.1.ffn_norm.weight", v), {.is_sigmoid = true});
                  }));
    return logits_of_rms(model, x, "token_embd_norm.weight");
  });
}

}  // namespace
}  // namespace tessera
