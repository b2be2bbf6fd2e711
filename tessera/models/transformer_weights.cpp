// Lists of weights that several architectures share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

std::string Transformer::block(int64_t il, std::string_view name) { return fmt::format("blk.{}.{}", il, name); }

bool Transformer::applies_ffn_scale(const Tensor* weight) const {
  return traits_.ffn_scales == FfnScales::all || (weight != nullptr && weight->dtype == DType::nvfp4);
}

nn::Linear Transformer::linear(const std::string& name, int64_t n_in, int64_t n_out, nn::ScaleOf scale_of) {
  nn::Linear layer{.weight = weights_.need(name + ".weight", {n_in, n_out}, Op::mul_mat),
                   .bias = weights_.maybe(name + ".bias", {n_out}, Op::add),
                   .scale_of = scale_of};
  if (scale_of == nn::ScaleOf::product || applies_ffn_scale(layer.weight))
    layer.scale = weights_.maybe(name + ".scale", {1}, Op::mul);
  return layer;
}

nn::Norm Transformer::norm(const std::string& name, const Shape& shape) {
  const Op use = traits_.norm == nn::NormKind::rms ? Op::rms_norm : Op::layer_norm;
  return {.kind = traits_.norm,
          .weight = weights_.need(name + ".weight", shape, use),
          .bias = weights_.maybe(name + ".bias", shape, use),
          .eps = eps_};
}

nn::Norm Transformer::maybe_norm(const std::string& name, const Shape& shape) {
  return weights_.has(name + ".weight") ? norm(name, shape) : nn::Norm{};
}

void Transformer::list_outer() {
  const Shape table{info_.n_embd, info_.n_vocab};
  token_embd_ = weights_.need("token_embd.weight", table, Op::get_rows);
  if (!traits_.output_norm.empty()) output_norm_ = norm(std::string(traits_.output_norm), {info_.n_embd});
  if (traits_.output != OutputWeights::none) list_output();
  if (!info_.ropes.empty()) list_rope_factors();
}

void Transformer::list_output() {
  const Shape table{info_.n_embd, info_.n_vocab};
  if (traits_.output == OutputWeights::own)
    output_.weight = weights_.need("output.weight", table, Op::mul_mat);
  else if (traits_.output == OutputWeights::own_or_embedding)
    output_.weight = weights_.maybe("output.weight", table, Op::mul_mat);
  if (output_.weight == nullptr) {
    output_.weight = token_embd_;
    weights_.also_multiplies(token_embd_);
  }
  output_.bias = weights_.maybe("output.bias", {info_.n_vocab}, Op::add);
}

void Transformer::list_rank_head() {
  const int64_t n_embd = info_.n_embd;
  int64_t n_labels = 1;
  if (const GgufValue* labels = files_.metadata().find(hp_.full_key("classifier.output_labels")); labels != nullptr) {
    if (!labels->is_array() || labels->size() > to_size(kMaxWidth))
      return weights_.fail_with(
          Error(ErrorCode::limit, fmt::format("{}: key '{}': want an array of at most {} labels", files_.name(),
                                              hp_.full_key("classifier.output_labels"), kMaxWidth)));
    n_labels = std::max<int64_t>(static_cast<int64_t>(labels->size()), 1);
  }
  const bool has_output = weights_.has("cls.output.weight");
  if (weights_.has("cls.weight")) rank_.dense = linear("cls", n_embd, has_output ? n_embd : n_labels);
  if (weights_.has("cls.norm.weight")) rank_.norm = norm("cls.norm", {n_embd});
  if (has_output) rank_.output = linear("cls.output", n_embd, n_labels);
  info_.rank_pooling = rank_.pooling;
  info_.n_scores = rank_.n_scores();
}

void Transformer::list_rope_factors() {
  nn::Rope& rope = info_.ropes[0];
  const Shape shape{rope.config.n_rot / 2};
  rope.factors = weights_.maybe("rope_freqs.weight", shape, Op::rope_table);
  if (rope.factors != nullptr) return;
  rope.factors = weights_.maybe("rope_factors_short.weight", shape, Op::rope_table);
  rope.long_factors = weights_.maybe("rope_factors_long.weight", shape, Op::rope_table);
}

nn::Attention Transformer::attention(int64_t il, int64_t k_dim, int64_t v_dim) {
  const auto i = to_size(il);
  const int64_t n_embd = info_.n_embd, n_q = k_dim * n_heads_[i], n_k = k_dim * n_heads_kv_[i],
                n_v = v_dim * n_heads_kv_[i];
  nn::Attention a{.n_heads = n_heads_[i],
                  .n_heads_kv = n_heads_kv_[i],
                  .k_dim = k_dim,
                  .v_dim = v_dim,
                  .rope = info_.ropes.empty() ? nn::kNoRope : 0,
                  .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                  .params = {.scale = 1.0f / std::sqrt(static_cast<float>(k_dim)), .causal = info_.is_causal}};
  if (weights_.has(block(il, "attn_qkv.weight"))) {
    a.qkv = linear(block(il, "attn_qkv"), n_embd, n_q + n_k + n_v);
  } else {
    a.q = linear(block(il, "attn_q"), n_embd, n_q);
    a.k = linear(block(il, "attn_k"), n_embd, n_k);
    a.v = linear(block(il, "attn_v"), n_embd, n_v);
  }
  a.out = linear(block(il, "attn_output"), v_dim * a.n_heads, n_embd);
  info_.kv_layers.push_back({.n_heads_kv = a.n_heads_kv, .k_dim = k_dim, .v_dim = v_dim});
  return a;
}

void Transformer::add_head_norms(nn::Attention& a, int64_t il) {
  a.q_norm = norm(block(il, "attn_q_norm"), {a.k_dim});
  a.k_norm = norm(block(il, "attn_k_norm"), {a.k_dim});
}

void Transformer::add_whole_norms(nn::Attention& a, int64_t il) {
  a.q_norm = norm(block(il, "attn_q_norm"), {a.k_dim * a.n_heads});
  a.k_norm = norm(block(il, "attn_k_norm"), {a.k_dim * a.n_heads_kv});
}

TransformerLayer Transformer::list_layer(int64_t il) {
  const auto dense_ffn = [&] {
    switch (traits_.ffn) {
      case FfnForm::fused:
        return fused_ffn(il, traits_.activation);
      case FfnForm::plain:
        return plain_ffn(il, traits_.activation);
      default:
        return gated_ffn(il, traits_.activation);
    }
  };
  return {.attn_norm = norm(il, "attn_norm"),
          .attention = attention(il),
          .ffn_norm = norm(il, "ffn_norm"),
          .ffn = dense_ffn()};
}

nn::Ffn Transformer::gated_ffn(int64_t il, nn::Activation activation) {
  nn::Ffn ffn = plain_ffn(il, activation);
  ffn.gate = linear(block(il, "ffn_gate"), info_.n_embd, n_ff(il), nn::ScaleOf::sum);
  return ffn;
}

nn::Ffn Transformer::fused_ffn(int64_t il, nn::Activation activation) {
  return {.up = linear(block(il, "ffn_up"), info_.n_embd, 2 * n_ff(il), nn::ScaleOf::sum),
          .down = linear(block(il, "ffn_down"), n_ff(il), info_.n_embd, nn::ScaleOf::sum),
          .activation = activation};
}

nn::Ffn Transformer::plain_ffn(int64_t il, nn::Activation activation) {
  return {.up = linear(block(il, "ffn_up"), info_.n_embd, n_ff(il), nn::ScaleOf::sum),
          .down = linear(block(il, "ffn_down"), n_ff(il), info_.n_embd, nn::ScaleOf::sum),
          .activation = activation};
}

nn::Ffn Transformer::shared_expert(int64_t il, int64_t n_ff) {
  return {.gate = linear(block(il, "ffn_gate_shexp"), info_.n_embd, n_ff, nn::ScaleOf::sum),
          .up = linear(block(il, "ffn_up_shexp"), info_.n_embd, n_ff, nn::ScaleOf::sum),
          .down = linear(block(il, "ffn_down_shexp"), n_ff, info_.n_embd, nn::ScaleOf::sum)};
}

nn::ExpertLinear Transformer::expert_linear(const std::string& name, int64_t n_in, int64_t n_out) {
  nn::ExpertLinear layer{.weight = weights_.need(name + ".weight", {n_in, n_out, n_experts_}, Op::mul_mat_experts),
                         .bias = weights_.maybe(name + ".bias", {n_out, n_experts_}, Op::expert_rows)};
  if (applies_ffn_scale(layer.weight)) layer.scale = weights_.maybe(name + ".scale", {n_experts_}, Op::expert_rows);
  return layer;
}

nn::Experts Transformer::experts(int64_t il, int64_t n_ff, const nn::Router& router) {
  const int64_t n_embd = info_.n_embd;
  nn::Experts e{.router = router};
  e.router.weight = weights_.need(block(il, "ffn_gate_inp.weight"), {n_embd, n_experts_}, Op::mul_mat);
  e.router.bias = weights_.maybe(block(il, "ffn_gate_inp.bias"), {n_experts_}, Op::add);
  e.router.selection_bias = weights_.maybe(block(il, "exp_probs_b.bias"), {n_experts_}, Op::add);
  e.router.n_experts = n_experts_;
  e.router.n_used = n_experts_used_;
  if (weights_.has(block(il, "ffn_gate_up_exps.weight"))) {
    e.gate_up = expert_linear(block(il, "ffn_gate_up_exps"), n_embd, 2 * n_ff);
  } else {
    e.gate = expert_linear(block(il, "ffn_gate_exps"), n_embd, n_ff);
    e.up = expert_linear(block(il, "ffn_up_exps"), n_embd, n_ff);
  }
  e.down = expert_linear(block(il, "ffn_down_exps"), n_ff, n_embd);
  return e;
}

void Transformer::add_ffn_or_experts(TransformerLayer& layer, int64_t il) {
  if (n_experts_ > 0)
    layer.experts = experts(il, n_ff(il), {.gating = nn::Gating::softmax, .normalize = true});
  else
    layer.ffn = gated_ffn(il);
}

void Transformer::alternate_window(nn::Attention& a, int64_t il, int64_t period, int full_rope) const {
  const bool has_window = il % period < period - 1;
  a.params.window = has_window ? window_ : 0;
  a.rope = has_window ? window_rope_ : full_rope;
}

}  // namespace tessera
