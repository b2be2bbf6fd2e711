// gemma4: like gemma3, with these differences. Norm weights are stored without 1 added, scores are not scaled, and V is
// normed without a weight. Layers with and without a window differ in heads and rope. The last layers use K and V of an
// earlier layer. Some models have a vector per token and layer beside the embedding, experts beside the dense block, or
// a factor on each layer's result.
#include "tessera/base/index.h"
#include "tessera/models/per_layer_model.h"

namespace tessera {

namespace {

/// The weights of a layer besides the common ones.
struct Extra {
  nn::Norm dense_post_norm{}, experts_norm{}, experts_post_norm{};
  const Tensor* router_scale = nullptr;  // [n_embd]
  PerLayerGate gate{};
  const Tensor* output_scale = nullptr;  // [1]
};

class Gemma4 final : public PerLayerModel {
 public:
  using PerLayerModel::PerLayerModel;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(final_soft_cap_, hp_.real_or("final_logit_softcapping", 30.0f, 0.0f, 1e6f));
    TESSERA_ASSIGN(has_window_, hp_.flag_per_layer("attention.sliding_window_pattern", n_blocks_));
    TESSERA_ASSIGN(window_, hp_.integer("attention.sliding_window", 1, kMaxContext));
    TESSERA_ASSIGN(window_k_dim_, hp_.integer("attention.key_length_swa", 2, kMaxHeadDim));
    TESSERA_ASSIGN(window_v_dim_, hp_.integer("attention.value_length_swa", 1, kMaxHeadDim));
    TESSERA_ASSIGN(const int64_t n_shared, hp_.integer_or("attention.shared_kv_layers", 0, 0, n_blocks_));
    first_shared_ = n_blocks_ - n_shared;
    if (n_shared > 0 && first_shared_ < 2)
      return fail(ErrorCode::limit, "{}: key '{}': {} of {} layers, want 2 before them", files_.name(),
                  hp_.full_key("attention.shared_kv_layers"), n_shared, n_blocks_);
    TESSERA_ASSIGN(n_per_layer_, hp_.integer_or("embedding_length_per_layer_input", 0, 0, kMaxWidth));
    return read_rope_of_windows();
  }

  void list_more() override {
    if (n_per_layer_ > 0) list_per_layer();
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attn_post_norm = norm(il, "post_attention_norm"),
                       .attention = list_attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .ffn_post_norm = norm(il, "post_ffw_norm"),
                       .ffn = dense_ffn(il)};
    Extra extra{.output_scale = weights_.maybe(block(il, "layer_output_scale.weight"), {1}, Op::mul)};
    if (has_experts(il)) {
      l.experts = experts(il, mixture_.n_ff, mixture_.router);
      extra.router_scale = weights_.need(block(il, "ffn_gate_inp.scale"), {info_.n_embd}, Op::mul);
      extra.dense_post_norm = norm(il, "post_ffw_norm_1");
      extra.experts_norm = norm(il, "pre_ffw_norm_2");
      extra.experts_post_norm = norm(il, "post_ffw_norm_2");
    }
    if (n_per_layer_ > 0) extra.gate = per_layer_gate(il);
    extras_.push_back(extra);
    return l;
  }

  Value embed(LayerBuilder& s) const override {
    const Value x = Transformer::embed(s);
    if (n_per_layer_ > 0) embed_per_layer(s, x);
    return x;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Extra& extra = extras_[to_size(s.layer)];
    x = s.residual(x, s.norm(attend_shared(s, s.norm(x, l.attn_norm), l.attention), l.attn_post_norm));
    x = s.residual(x, s.norm(feed_forward(s, x, l, extra), l.ffn_post_norm));
    if (n_per_layer_ > 0) x = s.residual(x, per_layer(s, x, extra.gate));
    return extra.output_scale == nullptr ? x : s.b.mul(x, nn::vector_f32(s.b, *extra.output_scale));
  }

 private:
  Result<> read_rope_of_windows() {
    nn::RopeConfig config = info_.ropes[0].config;
    TESSERA_ASSIGN(config.n_rot, hp_.integer_or("rope.dimension_count_swa", window_k_dim_, 2, kMaxHeadDim));
    TESSERA_ASSIGN(config.freq_base, hp_.real_or("rope.freq_base_swa", 10000.0f, 1.0f + 1e-3f, 1e12f));
    config.factor = 1.0f;
    if (config.n_rot % 2 != 0 || config.n_rot > window_k_dim_)
      return fail(ErrorCode::mismatch,
                  "{}: rope.dimension_count_swa {} and key length {}: want an even number of that "
                  "at most",
                  files_.name(), config.n_rot, window_k_dim_);
    // Not add_rope(): an equal rope may exist whose factors do not apply to these layers.
    info_.ropes.push_back({.config = config});
    return {};
  }

  nn::Attention list_attention(int64_t il) {
    const bool has_window = has_window_[to_size(il)];
    const int64_t k_dim = has_window ? window_k_dim_ : k_dim_, v_dim = has_window ? window_v_dim_ : v_dim_;
    const auto i = to_size(il);
    nn::Attention a{.q = linear(block(il, "attn_q"), info_.n_embd, k_dim * n_heads_[i]),
                    .out = linear(block(il, "attn_output"), v_dim * n_heads_[i], info_.n_embd),
                    .q_norm = norm(block(il, "attn_q_norm"), {k_dim}),
                    .n_heads = n_heads_[i],
                    .n_heads_kv = n_heads_kv_[i],
                    .k_dim = k_dim,
                    .v_dim = v_dim,
                    .rope = has_window ? 1 : 0,
                    .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                    .params = {.scale = 1.0f, .window = has_window ? window_ : 0}};
    if (il >= first_shared_) {
      a.cache_layer = first_shared_ - (has_window ? 2 : 1);
      return checked_sharing(il, a);
    }
    a.k = linear(block(il, "attn_k"), info_.n_embd, k_dim * a.n_heads_kv);
    a.k_norm = norm(block(il, "attn_k_norm"), {k_dim});
    if (weights_.has(block(il, "attn_v.weight")))
      a.v = linear(block(il, "attn_v"), info_.n_embd, v_dim * a.n_heads_kv);
    else if (k_dim != v_dim)
      weights_.fail_with(Error(ErrorCode::mismatch, files_.name() + ": layer " + std::to_string(il) +
                                                        ": K is V too, but their lengths differ"));
    info_.kv_layers.push_back({.n_heads_kv = a.n_heads_kv, .k_dim = k_dim, .v_dim = v_dim});
    return a;
  }

  // A layer may use K and V only of a layer of the same kind.
  nn::Attention checked_sharing(int64_t il, const nn::Attention& a) {
    const auto from = to_size(a.cache_layer);
    const KvLayerShape wanted{.n_heads_kv = a.n_heads_kv, .k_dim = a.k_dim, .v_dim = a.v_dim};
    if (info_.kv_layers[from] != wanted || has_window_[from] != has_window_[to_size(il)])
      weights_.fail_with(Error(ErrorCode::mismatch, files_.name() + ": layer " + std::to_string(il) +
                                                        " uses K and V of layer " + std::to_string(from) +
                                                        ", which is of another kind"));
    return a;
  }

  Value feed_forward(LayerBuilder& s, Value x, const TransformerLayer& l, const Extra& extra) const {
    const Value dense = nn::ffn(s.b, s.norm(x, l.ffn_norm), l.ffn);
    if (l.experts.router.weight == nullptr) return dense;
    const Value scaled = s.b.scale(s.b.rms_norm(x, Value(), eps_), 1.0f / embedding_scale_);
    const Value routed_by = s.b.mul(scaled, nn::vector_f32(s.b, *extra.router_scale));
    const Value chosen =
        nn::experts(s.b, s.norm(x, extra.experts_norm), l.experts, nn::route(s.b, routed_by, l.experts.router));
    return s.b.add(s.norm(dense, extra.dense_post_norm), s.norm(chosen, extra.experts_post_norm));
  }

  int64_t window_k_dim_ = 0, window_v_dim_ = 0;
  int64_t first_shared_ = 0;
  std::vector<Extra> extras_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma4>(files, rope,
                                    {.architecture = "gemma4",
                                     .activation = nn::Activation::gelu,
                                     .pairs = RopePairs::halves,
                                     .has_width_scale = true,
                                     .ffn_scales = FfnScales::all,
                                     .mixture = {.layers = ExpertLayers::with_router}});
}

}  // namespace tessera
