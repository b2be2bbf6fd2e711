// deepseek2: DeepSeek V2, V3, R1 and other models with multi-head latent attention (DeepSeek-AI 2024). Keys and values
// are products of one latent vector per token. Current files store these products separately, so that they can be
// applied to q and to the heads' outputs instead (absorbed). The cache then stores only the latent vector and the
// rotated part of the key, which all heads share. Older files store one product, and the cache stores keys and values
// of each head. Dense layers come first. The other layers have experts, chosen within groups, and a shared expert.
//
// K and q are stored with the rotated part first. This does not change the dot product, and V is then the end of K.
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

/// A layer's projections.
struct Latent {
  nn::Linear q{};  // absent if q is a product of two matrices, q_a and q_b
  nn::Linear q_a{}, q_b{};
  nn::Norm q_a_norm{};
  nn::Linear kv_a{};  // [n_embd, n_latent + n_rot]: the latent vector, and the rotated part of the key
  nn::Norm kv_a_norm{};
  const Tensor* k_b = nullptr;  // [n_nope, n_latent, n_heads]
  const Tensor* v_b = nullptr;  // [n_latent, v_dim, n_heads]
  nn::Linear kv_b{};            // instead of k_b and v_b: [n_latent, n_heads * (n_nope + v_dim)]
};

/// Views `count` elements of each row of x, from `first` on.
Value part_of_rows(GraphBuilder& b, Value x, int64_t first, int64_t count) {
  Layout layout = b.spec(x).layout;
  layout.shape[0] = count;
  return b.view(x, layout, to_size(first * layout.nb[0]));
}

/// Views x [n, t] as a single head per token.
Value as_head(GraphBuilder& b, Value x) {
  const Layout layout = b.spec(x).layout;
  const int64_t token_bytes = layout.nb[1], n_tokens = layout.shape[1];
  return b.view(
      x,
      {.shape = {layout.shape[0], 1, n_tokens}, .nb = {layout.nb[0], token_bytes, token_bytes, token_bytes * n_tokens}},
      0);
}

/// Repeats x [n, 1, t] for n_heads heads, as a view.
Value repeat_head(GraphBuilder& b, Value x, int64_t n_heads) {
  Layout layout = b.spec(x).layout;
  layout.shape[1] = n_heads;
  layout.nb[1] = 0;
  return b.view(x, layout, 0);
}

class DeepSeek2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
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
    TESSERA_TRY(require_experts());
    TESSERA_TRY(read_experts());
    TESSERA_TRY(read_score_scale());
    return read_temperature(info_.ropes[0].config.original_context);
  }

  TransformerLayer list_layer(int64_t il) override {
    latents_.push_back(list_latent(il));
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = list_attention(il), .ffn_norm = norm(il, "ffn_norm")};
    if (il < n_dense_) {
      l.ffn = gated_ffn(il);
      return l;
    }
    l.experts = experts(il, n_ff_experts_, router_);
    if (n_shared_ > 0) l.shared_expert = shared_expert(il, n_ff_experts_ * n_shared_);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = s.residual(x, attend(s, s.norm(x, l.attn_norm), l.attention, latents_[to_size(s.layer)]));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  Result<> read_experts() {
    TESSERA_ASSIGN(n_dense_, hp_.integer_or("leading_dense_block_count", 0, 0, kMaxLayers));
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(0));
    TESSERA_ASSIGN(n_shared_, hp_.integer("expert_shared_count", 0, kMaxExperts));
    // The files of GLM 4.7 Flash do not specify that its scores are sigmoids.
    const bool is_glm_flash = (n_layers_ == 47 || n_layers_ == 48) && info_.n_vocab == 154880;
    TESSERA_ASSIGN(router_, router_from_keys(is_glm_flash ? nn::Gating::sigmoid : nn::Gating::softmax));
    return {};
  }

  // YaRN's magnitude. If the file has a multiplier of the logarithm, the magnitude applies only to the scores.
  Result<> read_score_scale() {
    constexpr float kStoredShare = 0.1f;  // files store a tenth of the multiplier
    nn::RopeConfig& config = info_.ropes[0].config;
    TESSERA_ASSIGN(const float stored, hp_.real_or("rope.scaling.yarn_log_multiplier", 0.0f, 0.0f, 1e3f));
    if (stored != 0.0f) config.yarn_log_multiplier = 1.0f;
    const RopeTableParams params = nn::rope_table_params(config);
    const float m = params.magnitude * (1.0f - 0.1f * stored / kStoredShare * std::log(params.freq_scale));
    score_scale_ = m * m / std::sqrt(static_cast<float>(head_k_dim_));
    return {};
  }

  Latent list_latent(int64_t il) {
    const int64_t n_heads = n_heads_[to_size(il)], n_embd = info_.n_embd, n_nope = head_k_dim_ - n_rot_;
    Latent w;
    if (weights_.has(block(il, "attn_q_a.weight"))) {
      w.q_a = linear(block(il, "attn_q_a"), n_embd, n_latent_q_);
      w.q_a_norm = norm(block(il, "attn_q_a_norm"), {n_latent_q_});
      w.q_b = linear(block(il, "attn_q_b"), n_latent_q_, n_heads * head_k_dim_);
    } else {
      w.q = linear(block(il, "attn_q"), n_embd, n_heads * head_k_dim_);
    }
    w.kv_a = linear(block(il, "attn_kv_a_mqa"), n_embd, n_latent_ + n_rot_);
    w.kv_a_norm = norm(block(il, "attn_kv_a_norm"), {n_latent_});
    if (is_absorbed_) {
      w.k_b = weights_.need(block(il, "attn_k_b.weight"), {n_nope, n_latent_, n_heads}, Op::mul_mat_heads);
      w.v_b = weights_.need(block(il, "attn_v_b.weight"), {n_latent_, head_v_dim_, n_heads}, Op::mul_mat_heads);
    } else {
      w.kv_b = linear(block(il, "attn_kv_b"), n_latent_, n_heads * (n_nope + head_v_dim_));
    }
    return w;
  }

  nn::Attention list_attention(int64_t il) {
    const int64_t n_heads = n_heads_[to_size(il)];
    nn::Attention a{.out = linear(block(il, "attn_output"), n_heads * head_v_dim_, info_.n_embd),
                    .n_heads = n_heads,
                    .n_heads_kv = is_absorbed_ ? 1 : n_heads,
                    .k_dim = is_absorbed_ ? n_rot_ + n_latent_ : head_k_dim_,
                    .v_dim = is_absorbed_ ? n_latent_ : head_v_dim_,
                    .rope = 0,
                    .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                    .params = {.scale = score_scale_, .latent_v = is_absorbed_ ? n_latent_ : 0}};
    info_.kv_layers.push_back({.n_heads_kv = a.n_heads_kv, .k_dim = a.k_dim, .v_dim = is_absorbed_ ? 0 : head_v_dim_});
    return a;
  }

  Value attend(LayerBuilder& s, Value x, const nn::Attention& a, const Latent& w) const {
    GraphBuilder& b = s.b;
    const int64_t n_tokens = b.spec(x).shape()[1], n_nope = head_k_dim_ - n_rot_;
    const Value q_rows = w.q.weight != nullptr ? nn::linear(b, x, w.q)
                                               : nn::linear(b, s.norm(nn::linear(b, x, w.q_a), w.q_a_norm), w.q_b);
    const Value q = b.reshape(q_rows, {head_k_dim_, a.n_heads, n_tokens});
    const Value kv = nn::linear(b, x, w.kv_a);
    const Value latent = s.norm(part_of_rows(b, kv, 0, n_latent_), w.kv_a_norm);
    // The rotated parts of q and k.
    const nn::Heads rotated =
        nn::rotate(b, {part_of_rows(b, q, n_nope, n_rot_), as_head(b, part_of_rows(b, kv, n_latent_, n_rot_)), Value()},
                   a, s.ropes);
    const Value q_nope = part_of_rows(b, q, 0, n_nope);
    nn::Heads heads;
    if (is_absorbed_) {
      heads.q = b.concat(rotated.q, b.mul_mat_heads(b.tensor(*w.k_b), q_nope));
      heads.k = b.concat(rotated.k, as_head(b, latent));
    } else {
      const Value k_and_v = b.reshape(nn::linear(b, latent, w.kv_b), {n_nope + head_v_dim_, a.n_heads, n_tokens});
      heads.q = b.concat(rotated.q, q_nope);
      heads.k = b.concat(repeat_head(b, rotated.k, a.n_heads), part_of_rows(b, k_and_v, 0, n_nope));
      heads.v = part_of_rows(b, k_and_v, n_nope, head_v_dim_);
    }
    if (s.q_factors.present()) heads.q = b.mul(heads.q, s.q_factors);
    Value y = s.wanted(nn::attend(b, heads, a, s.in, s.cache));
    if (is_absorbed_) {
      const int64_t n_rows = b.spec(y).shape()[1];
      y = b.mul_mat_heads(b.tensor(*w.v_b), b.reshape(y, {n_latent_, a.n_heads, n_rows}));
      y = b.reshape(y, {head_v_dim_ * a.n_heads, n_rows});
    }
    return nn::linear(b, y, a.out);
  }

  int64_t n_rot_ = 0, n_latent_ = 0, n_latent_q_ = 0;
  int64_t head_k_dim_ = 0, head_v_dim_ = 0;  // per head, without absorption
  bool is_absorbed_ = false;
  float score_scale_ = 1.0f;
  int64_t n_dense_ = 0, n_ff_experts_ = 0, n_shared_ = 0;
  nn::Router router_;
  std::vector<Latent> latents_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_deepseek2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<DeepSeek2>(files, rope, {.architecture = "deepseek2", .has_heads = true});
}

}  // namespace tessera
