// Transformers without reference logits, as tiny files of random weights. Their logits are compared with the formulas
// of the architecture in double precision, and have the same bits for any batching of the tokens.
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int64_t kFormulaWindow = 5;

TEST(FormulaModels, Afmoe) {
  const Heads full{.n_rot = 0, .norms = HeadNorms::before, .gates = Gates::sigmoid_of_elements};
  Heads rotated = full, windowed = full;
  rotated.n_rot = 8;
  windowed.n_rot = 8, windowed.window = kFormulaWindow;
  TinyModel m = tiny_model("afmoe", 5, windowed);
  set_expert_keys(m);
  m.key("leading_dense_block_count", 1);
  m.key("expert_shared_count", 2);
  m.key("expert_weights_norm", true);
  m.key("expert_weights_scale", 1.5f);
  m.key("attention.sliding_window", kFormulaWindow);
  m.key("attention.sliding_window_pattern", 2);  // the period of windows, but not that of rope
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (Vec& row : x)
      for (double& v : row) v *= std::sqrt(static_cast<double>(kWidth));
    for (int64_t il = 0; il < 5; ++il) {
      const std::string blk = block(il);
      const Rows y = attended(w, blk, all_normed(w, blk + "attn_norm.weight", x),
                              il == 3       ? full
                              : il % 2 == 1 ? rotated
                                            : windowed);
      x = each_plus(x, all_normed(w, blk + "post_attention_norm.weight", y));
      const Rows f = each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
        if (il == 0) return block_of(w, blk + "ffn_{}", row, kNFf);
        return plus(mixture(w, blk, row, row, {.is_sigmoid = true, .has_selection_bias = true, .scale = 1.5}),
                    block_of(w, blk + "ffn_{}_shexp", row, 2 * kNFfExperts));
      });
      x = each_plus(x, all_normed(w, blk + "post_ffw_norm.weight", f));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, Laguna) {
  const Heads full{.n_rot = 4, .norms = HeadNorms::before, .gates = Gates::softplus_of_heads};
  Heads windowed = full;
  windowed.n_rot = 8, windowed.window = kFormulaWindow, windowed.base = 500.0, windowed.n = 2;
  TinyModel m = tiny_model("laguna", 5, full);
  m.keys("attention.head_count", {4, 2, 2, 2, 4});
  set_expert_keys(m);
  m.key("leading_dense_block_count", 1);
  m.key("attention.sliding_window", kFormulaWindow);
  m.key("rope.dimension_count_swa", 8);
  m.key("rope.freq_base_swa", 500.0f);
  m.keys("attention.sliding_window_pattern", {1, 1, 1, 1, 1});  // only a number has an effect
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 5; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), il % 4 == 0 ? full : windowed));
      x = each_plus(
          x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
            if (il == 0) return block_of(w, blk + "ffn_{}", row, kNFf);
            return plus(mixture(w, blk, row, row, {.is_sigmoid = true, .normalize = false, .has_selection_bias = true}),
                        block_of(w, blk + "ffn_{}_shexp", row, kNFfExperts));
          }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, Mimo2) {
  const Heads full{.n_kv = 1, .v_dim = 4, .n_rot = 4, .base = 300.0, .has_sinks = true};
  Heads windowed = full;
  windowed.n_kv = 2, windowed.window = kFormulaWindow, windowed.base = 10000.0;
  TinyModel m = tiny_model("mimo2", 3, full);
  m.keys("attention.head_count_kv", {1, 2, 1});
  m.keys("attention.sliding_window_pattern", {0, 1, 0});
  m.key("rope.freq_base", 300.0f);
  set_expert_keys(m);
  m.key("attention.sliding_window", kFormulaWindow);
  m.key("attention.value_scale", 0.7f);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const Heads& heads = il == 1 ? windowed : full;
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads, il == 0), double{0.7f});
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      if (il == 0) return block_of(w, blk + "ffn_{}", row, kNFf);
                      return mixture(w, blk, row, row, {.is_sigmoid = true});
                    }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, Step35) {
  constexpr double kLimit = 0.25;
  Heads full{.n_rot = 4, .base = 300.0, .gates = Gates::sigmoid_of_heads};
  Heads windowed{.n = 2, .window = kFormulaWindow};
  TinyModel m = tiny_model("step35", 3, full);
  m.keys("attention.head_count", {4, 2, 4});
  m.key("attention.sliding_window", kFormulaWindow);
  m.keys("attention.sliding_window_pattern", {0, 1, 0});
  m.key("rope.dimension_count", 8);
  m.key("rope.freq_base", 300.0f);
  set_expert_keys(m);
  m.key("expert_shared_feed_forward_length", 12);
  m.key("expert_weights_norm", true);
  m.builder.set_array("step35.swiglu_clamp_exp", std::vector<float>{0, 0.25f, 0});
  m.builder.set_array("step35.swiglu_clamp_shexp", std::vector<float>{0.25f, 0, 0.25f});
  const auto& factors = weight(m, "rope_freqs.weight", {4}, 0.5f, 1.5f);
  full.factors.assign(factors.begin(), factors.end());
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), il == 1 ? windowed : full));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      if (il == 0) return block_of(w, blk + "ffn_{}", row, kNFf, silu, true, 1, 0, kLimit);
                      return plus(mixture(w, blk, row, row, {.is_sigmoid = true, .limit = il == 1 ? kLimit : 0.0}),
                                  block_of(w, blk + "ffn_{}_shexp", row, 12, silu, true, 1, 0, il == 1 ? 0.0 : kLimit));
                    }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, Cohere2Moe) {
  const Heads rotated{.is_adjacent = true}, plain{.n_rot = 0};
  Heads windowed = rotated;
  windowed.window = kFormulaWindow;
  TinyModel m = tiny_model("cohere2moe", 4, rotated);
  set_expert_keys(m);
  m.key("leading_dense_block_count", 1);
  m.key("attention.sliding_window", kFormulaWindow);
  m.key("attention.sliding_window_pattern", 3);
  m.key("expert_shared_count", 1);
  m.key("expert_weights_norm", true);
  m.key("logit_scale", 0.25f);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 4; ++il) {
      const std::string blk = block(il);
      const Rows n = all_normed(w, blk + "attn_norm.weight", x);
      x = each_plus(x, attended(w, blk, n, il == 0 ? rotated : il == 3 ? plain : windowed));
      x = each_plus(x, each(n, [&](const Vec& row) {
                      if (il == 0) return block_of(w, blk + "ffn_{}", row, kNFf);
                      Vec sum = plus(mixture(w, blk, row, row, {.is_sigmoid = true}),
                                     block_of(w, blk + "ffn_{}_shexp", row, kNFfExperts));
                      for (double& v : sum) v /= 2;
                      return sum;
                    }));
    }
    Rows logits = output_logits(w, x);
    for (Vec& row : logits)
      for (double& v : row) v *= 0.25;
    return logits;
  });
}

TEST(FormulaModels, Cohere2MoeRefusesAnEpsOutOfRange) {
  TinyModel m = tiny_model("cohere2moe", 1, {});
  m.key("attention.layer_norm_rms_epsilon", 2.0f);
  EXPECT_ERROR(load_engine(m.write("eps.gguf")), "key 'cohere2moe.attention.layer_norm_rms_epsilon': 2, want 0 to 1");
}

TEST(FormulaModels, Mellum) {
  const Heads full{.norms = HeadNorms::before};
  Heads windowed = full;
  windowed.window = kFormulaWindow;
  for (const bool is_array : {false, true}) {
    TinyModel m = tiny_model("mellum", 3, full);
    set_expert_keys(m);
    m.key("attention.sliding_window", kFormulaWindow);
    m.key("rope.freq_base_swa", 77.0f);  // not used
    if (is_array)
      m.keys("attention.sliding_window_pattern", {1, 1, 0});
    else
      m.key("attention.sliding_window_pattern", 3);
    expect_formula(m, [&](TinyModel& w, Rows x) {
      for (int64_t il = 0; il < 3; ++il) {
        const std::string blk = block(il);
        x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), il == 2 ? full : windowed));
        x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                              [&](const Vec& row) { return mixture(w, blk, row, row, {}); }));
      }
      return output_logits(w, x);
    });
  }
}

TEST(FormulaModels, Talkie) {
  const Heads heads{.norms = HeadNorms::weightless_after};
  TinyModel m = tiny_model("talkie", 2, heads);
  m.key("logit_scale", 0.5f);
  const auto rms_rows = [](TinyModel& w, const Rows& x) {
    return each(x, [&](const Vec& v) { return rms(w, "", v); });
  };
  expect_formula(m, [&](TinyModel& w, Rows x) {
    x = rms_rows(w, x);
    const Rows embeddings = x;
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      // A factor on q is one on scores: the root of it on q and k would be the same.
      const auto& factors = weight(w, blk + "attn_q_norm.weight", {1, heads.n}, 0.3f, 1.0f);
      const Rows n = rms_rows(w, x);
      std::vector<Rows> q, k, v;
      for (size_t t = 0; t < n.size(); ++t) {
        const Vec all_q = product(w, blk + "attn_q", n[t], heads.n * heads.dim),
                  all_k = product(w, blk + "attn_k", n[t], heads.n_kv * heads.dim),
                  all_v = product(w, blk + "attn_v", n[t], heads.n_kv * heads.dim);
        q.emplace_back(), k.emplace_back(), v.emplace_back();
        for (int64_t h = 0; h < heads.n; ++h) {
          Vec head = head_of(w, "", part(all_q, h * heads.dim, heads.dim), t, heads);
          for (double& value : head) value *= double{factors[static_cast<size_t>(h)]};
          q[t].push_back(head);
        }
        for (int64_t h = 0; h < heads.n_kv; ++h) {
          k[t].push_back(head_of(w, "", part(all_k, h * heads.dim, heads.dim), t, heads));
          v[t].push_back(part(all_v, h * heads.dim, heads.dim));
        }
      }
      x = each_plus(x, each(mixed(w, blk, q, k, v, heads),
                            [&](const Vec& row) { return product(w, blk + "attn_output", row, kWidth); }));
      x = each_plus(x, each(rms_rows(w, x), [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }));
      x = each_plus(x, embeddings, double{weight(w, blk + "layer_output_scale.weight", {1}, 0.5f, 0.6f)[0]});
    }
    Rows logits = each(rms_rows(w, x), [&](const Vec& row) { return product(w, "output", row, kVocab); });
    for (Vec& row : logits)
      for (double& value : row) value *= 0.5;
    return logits;
  });
}

TEST(FormulaModels, BitNet) {
  const Heads heads{.n = 3, .n_kv = 3, .n_rot = 4};  // as wide as the embeddings
  TinyModel m = tiny_model("bitnet", 2, heads);
  m.weights.erase("output.weight"), m.shapes.erase("output.weight");
  expect_formula(m, [&](TinyModel& w, Rows x) {
    const auto scaled = [&](const std::string& name, const Vec& row, int64_t n_out) {
      Vec y = product(w, name, row, n_out);
      for (double& v : y) v *= double{weight(w, name + ".scale", {1}, 0.5f, 1.2f)[0]};
      return y;
    };
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows y = heads_outputs(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads);
      x = each_plus(x, each(all_normed(w, blk + "attn_sub_norm.weight", y),
                            [&](const Vec& row) { return scaled(blk + "attn_output", row, kWidth); }));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      Vec h = scaled(blk + "ffn_gate", row, kNFf);
                      for (double& v : h) v = silu(v);
                      h = times(h, scaled(blk + "ffn_up", row, kNFf));
                      return scaled(blk + "ffn_down", normed(w, blk + "ffn_sub_norm.weight", h), kWidth);
                    }));
    }
    return each(all_normed(w, "output_norm.weight", x),
                [&](const Vec& row) { return product(w, "token_embd", row, kVocab); });
  });
}

// Layers: attention, none, a linear layer, and one that is skipped.
TEST(FormulaModels, Deci) {
  const Heads heads{.is_adjacent = true};
  TinyModel m = tiny_model("deci", 4, heads);
  m.keys("attention.head_count", {4, 0, 4, 4});
  m.keys("attention.head_count_kv", {2, 0, 0, 2});
  m.keys("feed_forward_length", {20, 12, 16, 0});
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      if (il == 0) x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads));
      if (il == 2)
        x = each_plus(x, each(all_normed(w, blk + "attn_norm.weight", x),
                              [&](const Vec& row) { return product(w, blk + "attn_output", row, kWidth); }));
      const int64_t n_ff = il == 0 ? 20 : il == 1 ? 12 : 16;
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                            [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, n_ff); }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, PlaMo3) {
  const Heads full{.v_dim = 6, .n_rot = 4, .base = 700.0, .norms = HeadNorms::before};
  Heads windowed = full;
  windowed.window = kFormulaWindow, windowed.base = 10000.0;
  TinyModel m = tiny_model("plamo3", 9, full);
  m.key("rope.freq_base", 700.0f);
  m.key("attention.sliding_window", kFormulaWindow);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 9; ++il) {
      const std::string blk = block(il);
      const Rows y = attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), il == 7 ? full : windowed, true);
      x = each_plus(x, all_normed(w, blk + "post_attention_norm", y));
      const Rows f = each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
        Vec h = product(w, blk + "ffn_up", row, 2 * kNFf), gate = part(h, 0, kNFf);
        for (double& v : gate) v = silu(v);
        return product(w, blk + "ffn_down", times(gate, part(h, kNFf, kNFf)), kWidth);
      });
      x = each_plus(x, all_normed(w, blk + "post_ffw_norm", f));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, OpenElm) {
  Heads heads[] = {{.n = 2, .n_kv = 1, .norms = HeadNorms::before}, {.n = 4, .n_kv = 2, .norms = HeadNorms::before}};
  TinyModel m = tiny_model("openelm", 2, heads[1]);
  m.keys("attention.head_count", {2, 4});
  m.keys("attention.head_count_kv", {1, 2});
  m.keys("feed_forward_length", {12, 20});
  m.weights.erase("output.weight"), m.shapes.erase("output.weight");
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads[il], true));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                            [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, il == 0 ? 12 : 20); }));
    }
    return each(all_normed(w, "output_norm.weight", x),
                [&](const Vec& row) { return product(w, "token_embd", row, kVocab); });
  });
}

/// Latent attention with K and V of each head: q [nope | rotated], or as a product of two matrices.
Rows latent_attention(TinyModel& m, const std::string& blk, const Rows& x, const Heads& a, int64_t n_latent_q) {
  constexpr int64_t kLatent = 7;
  const int64_t n_nope = a.dim - a.n_rot;
  std::vector<Rows> q, k, v;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec low = n_latent_q == 0
                        ? x[t]
                        : normed(m, blk + "attn_q_a_norm.weight", product(m, blk + "attn_q_a", x[t], n_latent_q));
    const Vec q_all = product(m, blk + (n_latent_q == 0 ? "attn_q" : "attn_q_b"), low, a.n * a.dim);
    const Vec kv = product(m, blk + "attn_kv_a_mqa", x[t], kLatent + a.n_rot);
    const Vec latent = normed(m, blk + "attn_kv_a_norm.weight", part(kv, 0, kLatent));
    const Vec kv_all = product(m, blk + "attn_kv_b", latent, a.n * (n_nope + a.v_dim));
    Vec k_rotated = part(kv, kLatent, a.n_rot);
    rotate_head(k_rotated, t, a);
    q.emplace_back(), k.emplace_back(), v.emplace_back();
    for (int64_t h = 0; h < a.n; ++h) {
      Vec q_rotated = part(q_all, h * a.dim + n_nope, a.n_rot), q_head = part(q_all, h * a.dim, n_nope);
      rotate_head(q_rotated, t, a);
      q_head.insert(q_head.end(), q_rotated.begin(), q_rotated.end());
      q[t].push_back(q_head);
      Vec k_head = part(kv_all, h * (n_nope + a.v_dim), n_nope);
      k_head.insert(k_head.end(), k_rotated.begin(), k_rotated.end());
      k[t].push_back(k_head);
      v[t].push_back(part(kv_all, h * (n_nope + a.v_dim) + n_nope, a.v_dim));
    }
  }
  return each(mixed(m, blk, q, k, v, a), [&](const Vec& row) { return product(m, blk + "attn_output", row, kWidth); });
}

TEST(FormulaModels, Plm) {
  const Heads heads{.n_kv = 4, .dim = 10, .v_dim = 6, .n_rot = 4, .is_adjacent = true};
  TinyModel m = tiny_model("plm", 2, heads);
  m.key("attention.kv_lora_rank", 7);
  m.weights.erase("output.weight"), m.shapes.erase("output.weight");
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, latent_attention(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads, 0));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      return block_of(w, blk + "ffn_{}", row, kNFf, relu_squared, false);
                    }));
    }
    return each(all_normed(w, "output_norm.weight", x),
                [&](const Vec& row) { return product(w, "token_embd", row, kVocab); });
  });
}

TEST(FormulaModels, MiniCpm3) {
  const Heads heads{.n_kv = 4, .dim = 10, .v_dim = 6, .n_rot = 4};
  TinyModel m = tiny_model("minicpm3", 2, heads);
  m.key("attention.kv_lora_rank", 7);
  m.key("attention.q_lora_rank", 9);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    const double depth = 1.4 / std::sqrt(2.0);
    for (Vec& row : x)
      for (double& v : row) v *= 12;
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, latent_attention(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads, 9), depth);
      x = each_plus(x,
                    each(all_normed(w, blk + "ffn_norm.weight", x),
                         [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }),
                    depth);
    }
    Rows logits = output_logits(w, x);
    for (Vec& row : logits)
      for (double& v : row) v *= 256.0 / static_cast<double>(kWidth);
    return logits;
  });
}

TEST(FormulaModels, GptJ) {
  const Heads heads{.n_kv = 4, .n_rot = 4, .is_adjacent = true};
  TinyModel m = tiny_model("gptj", 2, heads);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    const auto layer_normed = [&](const std::string& name, const Rows& rows) {
      weight(w, name + ".weight", {kWidth}, 0.3f, 1.0f);
      weight(w, name + ".bias", {kWidth}, 0.3f);
      return each(rows, [&](const Vec& row) { return layer_norm(w, name, row); });
    };
    const auto with_bias = [&](const std::string& name, const Vec& row, int64_t n_out) {
      const Vec y = product(w, name, row, n_out);
      weight(w, name + ".bias", {n_out}, 0.3f);
      return plus(y, vector_of(w, name + ".bias"));
    };
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows n = layer_normed(blk + "attn_norm", x);
      x = each_plus(x, attended(w, blk, n, heads));
      x = each_plus(x, each(n, [&](const Vec& row) {
                      Vec h = with_bias(blk + "ffn_up", row, kNFf);
                      for (double& v : h) v = gelu(v);
                      return with_bias(blk + "ffn_down", h, kWidth);
                    }));
    }
    return each(layer_normed("output_norm", x), [&](const Vec& row) { return with_bias("output", row, kVocab); });
  });
}

}  // namespace
}  // namespace tessera
