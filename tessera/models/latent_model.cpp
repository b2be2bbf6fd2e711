#include "tessera/models/latent_model.h"

#include <cmath>

#include "tessera/nn/views.h"

namespace tessera {

Result<> LatentModel::read_latent_keys() {
  n_rot_ = info_.ropes[0].config.n_rot;
  TESSERA_ASSIGN(n_latent_, hp_.integer("attention.kv_lora_rank", 1, kMaxHeadDim));
  TESSERA_ASSIGN(n_latent_q_, hp_.integer_or("attention.q_lora_rank", 0, 0, kMaxWidth));
  TESSERA_ASSIGN(const int64_t k_mla, hp_.integer_or("attention.key_length_mla", 0, 0, kMaxHeadDim));
  TESSERA_ASSIGN(const int64_t v_mla, hp_.integer_or("attention.value_length_mla", 0, 0, kMaxHeadDim));
  is_absorbed_ = k_mla > 0 && v_mla > 0;
  head_k_dim_ = is_absorbed_ ? k_mla : k_dim_;
  head_v_dim_ = is_absorbed_ ? v_mla : v_dim_;
  if (head_k_dim_ <= n_rot_)
    return fail(ErrorCode::mismatch, "{}: rope.dimension_count {}: want less than the key length, {}", files_.name(),
                n_rot_, head_k_dim_);
  score_scale_ = 1.0f / std::sqrt(static_cast<float>(head_k_dim_));
  return {};
}

TransformerLayer LatentModel::list_layer(int64_t il) {
  const int64_t n_heads = n_heads_[to_size(il)];
  latents_.push_back(list_latent(il, n_heads));
  TransformerLayer l{
      .attn_norm = norm(il, "attn_norm"), .attention = latent_attention(il, n_heads), .ffn_norm = norm(il, "ffn_norm")};
  add_ffn(l, il);
  return l;
}

Value LatentModel::layer(LayerBuilder& s, Value x, const TransformerLayer& l) const {
  x = s.residual(x, attend_latent(s, s.norm(x, l.attn_norm), l.attention, latents_[to_size(s.layer)]));
  return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
}

Latent LatentModel::list_latent(int64_t il, int64_t n_heads) {
  const int64_t n_embd = info_.n_embd, n_nope = head_k_dim_ - n_rot_;
  constexpr LinearParts kNoScale{.scale = false};
  Latent w;
  if (weights_.has(block(il, "attn_q_a.weight"))) {
    w.q_a = linear(block(il, "attn_q_a"), n_embd, n_latent_q_, kNoScale);
    w.q_a_norm = norm(block(il, "attn_q_a_norm"), {n_latent_q_});
    w.q_b = linear(block(il, "attn_q_b"), n_latent_q_, n_heads * head_k_dim_, kNoScale);
  } else {
    w.q = linear(block(il, "attn_q"), n_embd, n_heads * head_k_dim_, kNoScale);
  }
  w.kv_a = linear(block(il, "attn_kv_a_mqa"), n_embd, n_latent_ + n_rot_, kNoScale);
  w.kv_a_norm = norm(block(il, "attn_kv_a_norm"), {n_latent_});
  if (is_absorbed_) {
    w.k_b = weights_.need(block(il, "attn_k_b.weight"), {n_nope, n_latent_, n_heads}, Op::mul_mat_heads);
    w.v_b = weights_.need(block(il, "attn_v_b.weight"), {n_latent_, head_v_dim_, n_heads}, Op::mul_mat_heads);
  } else {
    w.kv_b = linear(block(il, "attn_kv_b"), n_latent_, n_heads * (n_nope + head_v_dim_), kNoScale);
  }
  return w;
}

nn::Attention LatentModel::latent_attention(int64_t il, int64_t n_heads) {
  nn::Attention a{.out = linear(block(il, "attn_output"), n_heads * head_v_dim_, info_.n_embd),
                  .n_heads = n_heads,
                  .n_heads_kv = is_absorbed_ ? 1 : n_heads,
                  .k_dim = is_absorbed_ ? n_rot_ + n_latent_ : head_k_dim_,
                  .v_dim = is_absorbed_ ? n_latent_ : head_v_dim_,
                  .rope = info_.ropes.empty() ? nn::kNoRope : 0,
                  .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                  .params = {.scale = score_scale_, .latent_v = is_absorbed_ ? n_latent_ : 0}};
  info_.kv_layers.push_back({.n_heads_kv = a.n_heads_kv, .k_dim = a.k_dim, .v_dim = is_absorbed_ ? 0 : head_v_dim_});
  return a;
}

Value LatentModel::attend_latent(LayerBuilder& s, Value x, const nn::Attention& a, const Latent& w) const {
  using nn::as_head, nn::part_of_rows;
  GraphBuilder& b = s.b;
  const int64_t n_tokens = b.spec(x).shape()[1], n_nope = head_k_dim_ - n_rot_;
  const Value q_latent = w.q.weight != nullptr ? Value() : s.norm(nn::linear(b, x, w.q_a), w.q_a_norm);
  const Value chosen = chosen_keys(s, q_latent, x, a);
  const Value q_rows = w.q.weight != nullptr ? nn::linear(b, x, w.q) : nn::linear(b, q_latent, w.q_b);
  const Value q = b.reshape(q_rows, {head_k_dim_, a.n_heads, n_tokens});
  const Value kv = nn::linear(b, x, w.kv_a);
  const Value latent = s.norm(part_of_rows(b, kv, 0, n_latent_), w.kv_a_norm);
  // The rotated parts of q and k.
  const nn::Heads rotated = nn::rotate(
      b, {part_of_rows(b, q, n_nope, n_rot_), as_head(b, part_of_rows(b, kv, n_latent_, n_rot_)), Value()}, a, s.ropes);
  const Value q_nope = part_of_rows(b, q, 0, n_nope);
  nn::Heads heads;
  if (is_absorbed_) {
    heads.q = b.concat(rotated.q, b.mul_mat_heads(b.tensor(*w.k_b), q_nope));
    heads.k = b.concat(rotated.k, as_head(b, latent));
  } else {
    const Value k_and_v = b.reshape(nn::linear(b, latent, w.kv_b), {n_nope + head_v_dim_, a.n_heads, n_tokens});
    heads.q = b.concat(rotated.q, q_nope);
    heads.k = b.concat(nn::repeat_head(b, rotated.k, a.n_heads), part_of_rows(b, k_and_v, 0, n_nope));
    heads.v = part_of_rows(b, k_and_v, n_nope, head_v_dim_);
  }
  if (s.q_factors.present()) heads.q = b.mul(heads.q, s.q_factors);
  Value y = s.wanted(nn::attend(b, heads, a, s.in, s.cache, chosen));
  if (is_absorbed_) {
    const int64_t n_rows = b.spec(y).shape()[1];
    y = b.mul_mat_heads(b.tensor(*w.v_b), b.reshape(y, {n_latent_, a.n_heads, n_rows}));
    y = b.reshape(y, {head_v_dim_ * a.n_heads, n_rows});
  }
  return nn::linear(b, y, a.out);
}

}  // namespace tessera
