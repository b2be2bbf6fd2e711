// Tiny models of Qwen 3 Next and Qwen 3.5, whose layers are gated delta nets and gated attention.
#pragma once

#include "tests/support/tiny_models.h"

namespace tessera::testing::tiny {

// 2 key heads and 4 value heads of 6.
inline constexpr int64_t kDim = 6, kKeyHeads = 2, kValueHeads = 4, kPerKey = kValueHeads / kKeyHeads;

enum class Qwen { next, next_in_one, dense35, moe35 };

inline const AttentionRules kQwenAttention{.n_rot = 4, .has_norms = true, .has_gate = true};

/// Three layers, of which the second one is attention.
inline TinyModel tiny_qwen(Qwen kind) {
  const bool is_next = kind == Qwen::next || kind == Qwen::next_in_one, is_dense = kind == Qwen::dense35;
  const AttentionRules& rules = kQwenAttention;
  TinyModel m(is_next ? "qwen3next" : is_dense ? "qwen35" : "qwen35moe", 3);
  m.key("ssm.conv_kernel", 4);
  m.key("ssm.inner_size", kDim * kValueHeads);
  m.key("ssm.state_size", kDim);
  m.key("ssm.time_step_rank", kValueHeads);
  m.key("ssm.group_count", kKeyHeads);
  m.key("attention.head_count", rules.n_heads);
  m.key("attention.head_count_kv", rules.n_heads_kv);
  m.key("attention.key_length", rules.dim);
  m.key("attention.value_length", rules.dim);
  m.key("rope.dimension_count", rules.n_rot);
  if (kind == Qwen::moe35)  // layer 1 is not linear
    m.keys("attention.recurrent_layers", {1, 0, 1});
  else
    m.key("full_attention_interval", 2);
  m.key("feed_forward_length", 20);
  if (!is_next) m.keys("rope.dimension_sections", {2, 2, 1, 0});
  if (!is_dense) {
    m.key("expert_count", kExperts);
    m.key("expert_used_count", 2);
    m.key("expert_feed_forward_length", 10);
    m.key("expert_shared_feed_forward_length", 12);
  }
  m.norm("output_norm", {kWidth});
  constexpr int64_t n_v = kDim * kValueHeads, n_conv = 2 * kDim * kKeyHeads + n_v;
  for (int64_t il = 0; il < 3; ++il) {
    const std::string blk = block(il);
    m.norm(blk + "attn_norm", {kWidth});
    m.norm(blk + "post_attention_norm", {kWidth});
    if (is_dense) {
      add_ffn(m, blk, "", 20);
    } else {
      add_experts(m, blk, 10);
      add_ffn(m, blk, "_shexp", 12);
      m.add(blk + "ffn_gate_inp_shexp.weight", {kWidth}, 0.3f);
    }
    if (il == 1) {
      add_attention(m, blk, rules);
      continue;
    }
    if (kind == Qwen::next_in_one) {
      m.add(blk + "ssm_in.weight", {kWidth, n_conv + n_v});
    } else {
      m.add(blk + "attn_qkv.weight", {kWidth, n_conv});
      m.add(blk + "attn_gate.weight", {kWidth, n_v});
    }
    if (is_next) {
      m.add(blk + "ssm_ba.weight", {kWidth, 2 * kValueHeads});
    } else {
      m.add(blk + "ssm_beta.weight", {kWidth, kValueHeads});
      m.add(blk + "ssm_alpha.weight", {kWidth, kValueHeads});
    }
    m.add(blk + "ssm_conv1d.weight", {4, n_conv});
    m.add(blk + "ssm_dt.bias", {kValueHeads});
    m.add(blk + "ssm_a", {kValueHeads}, 0.3f, -0.5f);
    m.norm(blk + "ssm_norm", {kDim});
    m.add(blk + "ssm_out.weight", {n_v, kWidth});
  }
  return m;
}

}  // namespace tessera::testing::tiny
