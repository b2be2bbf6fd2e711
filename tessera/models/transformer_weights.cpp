// Lists of weights that several architectures share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

std::string Transformer::block(int64_t il, std::string_view name) { return fmt::format("blk.{}.{}", il, name); }

nn::Linear Transformer::linear(const std::string& name, int64_t n_in, int64_t n_out, LinearParts parts) {
  nn::Linear layer{.weight = weights_.need(name + ".weight", {n_in, n_out}, Op::mul_mat), .scale_of = parts.scale_of};
  if (parts.bias) layer.bias = weights_.maybe(name + ".bias", {n_out}, Op::add);
  const bool has_scale_of_format = layer.weight != nullptr && layer.weight->dtype == DType::nvfp4;
  if (parts.scale || has_scale_of_format) layer.scale = weights_.maybe(name + ".scale", {1}, Op::mul);
  return layer;
}

nn::Norm Transformer::norm(const std::string& name, const Shape& shape) {
  if (!traits_.has_norm_weights) return {.kind = traits_.norm, .is_weightless = true, .eps = eps_};
  const Op use = traits_.norm == nn::NormKind::rms ? Op::rms_norm : Op::layer_norm;
  // Some architectures store norms without the suffix.
  return {.kind = traits_.norm,
          .weight = weights_.need(weights_.has(name) ? name : name + ".weight", shape, use),
          .bias = weights_.maybe(name + ".bias", shape, use),
          .eps = eps_};
}

nn::Norm Transformer::maybe_norm(const std::string& name, const Shape& shape) {
  return weights_.has(name + ".weight") ? norm(name, shape) : nn::Norm{};
}

void Transformer::list_outer() {
  const Shape table{info_.n_embd, info_.n_vocab};
  const bool is_output = traits_.output == OutputWeights::own_or_both && !weights_.has("token_embd.weight");
  token_embd_ = weights_.need(is_output ? "output.weight" : "token_embd.weight", table, Op::get_rows);
  if (traits_.has_positions)
    position_embd_ = weights_.need("position_embd.weight", {info_.n_embd, info_.n_ctx_train}, Op::get_rows);
  if (traits_.has_token_types) list_token_types();
  if (traits_.has_embd_norm) embd_norm_ = norm("token_embd_norm", {info_.n_embd});
  if (!traits_.output_norm.empty()) output_norm_ = norm(std::string(traits_.output_norm), {info_.n_embd});
  if (traits_.output != OutputWeights::none) list_output();
  if (!info_.ropes.empty() && traits_.optional.rope_factors) list_rope_factors();
}

void Transformer::list_token_types() {
  constexpr const char* kTypeCountKey = "tokenizer.ggml.token_type_count";
  constexpr int64_t kMaxTokenTypes = 1 << 16;
  auto n_types = files_.metadata().get<int64_t>(kTypeCountKey);
  if (!n_types) return weights_.fail_with(std::move(n_types).error().within(files_.name()));
  if (*n_types < 1 || *n_types > kMaxTokenTypes)
    return weights_.fail_with(Error(ErrorCode::limit, fmt::format("{}: key '{}': {}, want 1 to {}", files_.name(),
                                                                  kTypeCountKey, *n_types, kMaxTokenTypes)));
  token_types_ = weights_.need("token_types.weight", {info_.n_embd, *n_types}, Op::add);
}

void Transformer::list_output() {
  const bool is_own = traits_.output == OutputWeights::own ||
                      (traits_.output == OutputWeights::own_or_embedding && weights_.has("output.weight")) ||
                      (traits_.output == OutputWeights::own_or_both && weights_.has("token_embd.weight"));
  const OptionalWeights& optional = traits_.optional;
  if (is_own) {
    output_ =
        linear("output", info_.n_embd, info_.n_vocab, {.bias = optional.output_bias, .scale = optional.output_scale});
    return;
  }
  output_.weight = token_embd_;
  weights_.also_multiplies(token_embd_);
  if (optional.output_bias) output_.bias = weights_.maybe("output.bias", {info_.n_vocab}, Op::add);
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
  info_.n_scores = info_.projects_pooled ? 0 : rank_.n_scores();
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
  nn::Attention a{
      .n_heads = n_heads_[i],
      .n_heads_kv = n_heads_kv_[i],
      .k_dim = k_dim,
      .v_dim = v_dim,
      .clamp = clamp_,
      .rope = info_.ropes.empty() ? nn::kNoRope : 0,
      .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
      .params = {.scale = attention_scale_ != 0.0f ? attention_scale_ : 1.0f / std::sqrt(static_cast<float>(k_dim)),
                 .causal = info_.is_causal}};
  const LinearParts parts{.bias = traits_.optional.qkv_bias, .scale = traits_.optional.qkv_scale};
  if (weights_.has(block(il, "attn_qkv.weight"))) {
    a.qkv_heads_kv = traits_.has_qkv_of_all_heads ? a.n_heads : a.n_heads_kv;
    a.qkv = linear(block(il, "attn_qkv"), n_embd, n_q + (k_dim + v_dim) * a.qkv_heads_kv, parts);
  } else {
    a.q = linear(block(il, "attn_q"), n_embd, n_q, parts);
    a.k = linear(block(il, "attn_k"), n_embd, n_k, parts);
    a.v = linear(block(il, "attn_v"), n_embd, n_v, parts);
  }
  a.out = linear(block(il, "attn_output"), v_dim * a.n_heads, n_embd, {.bias = traits_.optional.out_bias});
  const bool may_lack_gate = traits_.gate == HeadGate::sigmoid_if_any && !weights_.has(block(il, "attn_gate.weight"));
  if (traits_.gate != HeadGate::none && !may_lack_gate) a.gate = head_gate(il, a);
  if (traits_.has_sinks) a.sinks = weights_.need(block(il, "attn_sinks.weight"), {a.n_heads}, Op::paged_attention);
  info_.kv_layers.push_back({.n_heads_kv = a.n_heads_kv, .k_dim = k_dim, .v_dim = v_dim});
  return a;
}

nn::HeadGate Transformer::head_gate(int64_t il, const nn::Attention& a) {
  const std::string name = block(il, "attn_gate");
  const ModelFiles::Tensor* weight = files_.find_tensor(name + ".weight");
  const bool is_per_head = weight != nullptr && weight->info.shape[1] == a.n_heads && a.v_dim > 1;
  return {.product = linear(name, info_.n_embd, is_per_head ? a.n_heads : a.n_heads * a.v_dim),
          .is_softplus = traits_.gate == HeadGate::softplus};
}

void Transformer::add_qk_norms(nn::Attention& a, int64_t il, QkNorms norms) {
  const std::string q = block(il, "attn_q_norm"), k = block(il, "attn_k_norm");
  if (norms == QkNorms::none || (norms == QkNorms::heads_if_any && !weights_.has(q + ".weight"))) return;
  const auto shape = [&](int64_t n_heads) -> Shape {
    if (norms == QkNorms::each_head) return {a.k_dim, n_heads};
    return {norms == QkNorms::whole ? a.k_dim * n_heads : a.k_dim};
  };
  a.q_norm = norm(q, shape(a.n_heads));
  a.k_norm = norm(k, shape(a.n_heads_kv));
  a.norms_rotated = norms == QkNorms::rotated_heads;
}

void Transformer::place(nn::Attention& a, int64_t il) const {
  a.params.max_alibi = traits_.max_alibi;
  const bool has_window = window_ > 0 && has_window_[to_size(il)];
  if (has_window) a.params.window = info_.is_causal ? window_ : window_ / 2 + 1;
  if (has_window && !info_.ropes.empty()) a.rope = window_rope_;
  const bool lacks_rope = window_ > 0 && !has_window && traits_.window.is_rope_of_windows;
  if (lacks_rope || (traits_.no_rope_period > 0 && (il + 1) % traits_.no_rope_period == 0)) a.rope = nn::kNoRope;
}

TransformerLayer Transformer::list_layer(int64_t il) {
  const LayerForm form = traits_.form;
  const bool is_parallel = form == LayerForm::parallel,
             has_post_norms = form == LayerForm::post_norm || form == LayerForm::sandwich,
             has_pre_norms = form != LayerForm::post_norm && form != LayerForm::norm_sum;
  TransformerLayer l;
  if (has_pre_norms) l.attn_norm = norm(il, "attn_norm");
  l.attention = attention(il);
  add_qk_norms(l.attention, il, traits_.qk_norms);
  place(l.attention, il);
  if (has_post_norms) l.attn_post_norm = norm(il, "post_attention_norm");
  if (form == LayerForm::norm_sum) l.attn_post_norm = norm(il, "attn_output_norm");
  if (has_pre_norms && !is_parallel) l.ffn_norm = norm(il, traits_.ffn_norm);
  if (has_post_norms) l.ffn_post_norm = norm(il, "post_ffw_norm");
  if (form == LayerForm::norm_sum) l.ffn_post_norm = norm(il, "layer_output_norm");
  add_ffn(l, il);
  return l;
}

}  // namespace tessera
