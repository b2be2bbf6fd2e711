// gemma4-assistant: the draft model of Gemma 4, in a file of its own. Its layers are those of Gemma 4 without K and V:
// they attend to K and V of the model for which it guesses, of its last layer with a window or without one. So it
// stores nothing, and all guesses have the position of the text's last token. It takes that model's embeddings and the
// input of its output layer.
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Gemma4Assistant final : public Transformer {
 public:
  using Transformer::Transformer;

  Result<> follow(const Model& target) override;
  HiddenRows build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;

 protected:
  Result<> read_keys() override;
  void list_outer() override;
  TransformerLayer list_layer(int64_t il) override;

 private:
  Value attend_to_target(LayerBuilder& s, Value x, const nn::Attention& a) const;

  int64_t window_dim_ = 0;                 // of heads of layers with a window
  nn::Linear join_, state_;                // [2 * n_hidden, n_embd], [n_embd, n_hidden]
  std::vector<const Tensor*> out_scales_;  // by layer: [1] or null
  const Tensor* target_embd_ = nullptr;    // [n_hidden, n_vocab]
};

Result<> Gemma4Assistant::read_keys() {
  TESSERA_ASSIGN(has_window_, hp_.flag_per_layer("attention.sliding_window_pattern", n_blocks_));
  TESSERA_ASSIGN(window_, hp_.integer("attention.sliding_window", 1, kMaxContext));
  TESSERA_ASSIGN(window_dim_, hp_.integer("attention.key_length_swa", 2, kMaxHeadDim));
  TESSERA_ASSIGN(const int64_t window_v, hp_.integer("attention.value_length_swa", 2, kMaxHeadDim));
  if (k_dim_ != v_dim_ || window_dim_ != window_v)
    return fail(ErrorCode::mismatch, "{}: heads of K have {} and {} elements, those of V {} and {}, want the same",
                files_.name(), k_dim_, window_dim_, v_dim_, window_v);
  TESSERA_ASSIGN(info_.n_hidden, hp_.integer("embedding_length_out", 1, kMaxWidth));
  info_.follower = FollowerInfo{.borrows_cache = true};
  nn::RopeConfig config = info_.ropes[0].config;
  TESSERA_ASSIGN(config.n_rot, hp_.integer_or("rope.dimension_count_swa", window_dim_, 2, window_dim_));
  TESSERA_ASSIGN(config.freq_base, hp_.real_or("rope.freq_base_swa", 10000.0f, 1.0f + 1e-3f, 1e12f));
  config.factor = 1.0f;
  if (config.n_rot % 2 != 0)
    return fail(ErrorCode::mismatch, "{}: rope.dimension_count_swa {}: want an even number", files_.name(),
                config.n_rot);
  info_.ropes.push_back({.config = config});
  return {};
}

void Gemma4Assistant::list_outer() {
  const int64_t n_embd = info_.n_embd, n_hidden = info_.n_hidden;
  output_.weight = weights_.need("token_embd.weight", {n_embd, info_.n_vocab}, Op::mul_mat);
  output_norm_ = norm("output_norm", {n_embd});
  join_ = linear("nextn.pre_projection", 2 * n_hidden, n_embd);
  state_ = linear("nextn.post_projection", n_embd, n_hidden);
  list_rope_factors();
}

TransformerLayer Gemma4Assistant::list_layer(int64_t il) {
  const bool has_window = has_window_[to_size(il)];
  const int64_t dim = has_window ? window_dim_ : k_dim_, n_heads = n_heads_[to_size(il)];
  out_scales_.push_back(weights_.maybe(block(il, "layer_output_scale.weight"), {1}, Op::mul));
  return {.attn_norm = norm(il, "attn_norm"),
          .attn_post_norm = norm(il, "post_attention_norm"),
          .attention = {.q = linear(block(il, "attn_q"), info_.n_embd, dim * n_heads),
                        .out = linear(block(il, "attn_output"), dim * n_heads, info_.n_embd),
                        .q_norm = norm(block(il, "attn_q_norm"), {dim}),
                        .n_heads = n_heads,
                        .k_dim = dim,
                        .v_dim = dim,
                        .rope = has_window ? 1 : 0,
                        .params = {.scale = 1.0f, .window = has_window ? window_ : 0}},
          .ffn_norm = norm(il, "ffn_norm"),
          .ffn_post_norm = norm(il, "post_ffw_norm"),
          .ffn = dense_ffn(il)};
}

// Finds the layer of the target's cache for each layer: the last one of the same window.
Result<> Gemma4Assistant::follow(const Model& target) {
  const ModelInfo& other = target.info();
  const std::string& name = target.weights().files().name();
  target_embd_ = target.weights().find_listed("token_embd.weight");
  if (info_.n_hidden != other.n_embd || target_embd_ == nullptr)
    return fail(ErrorCode::mismatch, "{}: not a draft model for {}: key '{}' is {}, and its states have {} elements",
                files_.name(), name, hp_.full_key("embedding_length_out"), info_.n_hidden, other.n_embd);
  if (info_.n_vocab < other.n_vocab)
    return fail(ErrorCode::mismatch, "{}: not a draft model for {}: its vocabulary has {} tokens, want {}",
                files_.name(), name, info_.n_vocab, other.n_vocab);
  for (size_t il = 0; il < layers_.size(); ++il) {
    nn::Attention& a = layers_[il].attention;
    int64_t found = std::ssize(other.kv_layers) - 1;
    while (found >= 0 && other.kv_layers[to_size(found)].window != a.params.window) --found;
    const KvLayerShape shape = found < 0 ? KvLayerShape{} : other.kv_layers[to_size(found)];
    if (found < 0 || shape.k_dim != a.k_dim || shape.v_dim != a.v_dim || a.n_heads % shape.n_heads_kv != 0)
      return fail(ErrorCode::mismatch,
                  "{}: not a draft model for {}: layer {} has {} heads of {} and a window of {}, which fit none of its "
                  "layers (0: no window)",
                  files_.name(), name, il, a.n_heads, a.k_dim, a.params.window);
    a.cache_layer = found;
    a.n_heads_kv = shape.n_heads_kv;
  }
  return {};
}

Value Gemma4Assistant::attend_to_target(LayerBuilder& s, Value x, const nn::Attention& a) const {
  GraphBuilder& b = s.b;
  nn::Heads heads;
  heads.q = b.reshape(nn::linear(b, x, a.q), {a.k_dim, a.n_heads, b.spec(x).shape()[1]});
  heads.q = nn::head_norm(b, heads.q, a.q_norm);
  heads.q = nn::rotate(b, heads, a, s.ropes).q;
  const nn::CacheInputs& at = s.in.cache(a.cache_layer);
  AttentionParams params = a.params;
  params.int16 = s.in.int16_attention;
  const Value y = b.paged_attention(heads.q, b.tensor(s.cache.k(a.cache_layer)), b.tensor(s.cache.v(a.cache_layer)),
                                    s.in.positions, s.in.sequences, at.blocks, at.valid, Value(), params);
  return nn::linear(b, s.wanted(b.reshape(y, {a.v_dim * a.n_heads, b.spec(y).shape()[2]})), a.out);
}

HiddenRows Gemma4Assistant::build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  LayerBuilder s = layer_builder(b, in, cache, std::ssize(layers_));
  const Value embedding =
      b.scale(b.get_rows(b.tensor(*target_embd_), in.tokens), std::sqrt(static_cast<float>(info_.n_hidden)));
  Value x = nn::linear(b, b.concat(embedding, in.hidden), join_);
  for (; s.layer < std::ssize(layers_); ++s.layer) {
    const TransformerLayer& l = layers_[to_size(s.layer)];
    const Tensor* scale = out_scales_[to_size(s.layer)];
    x = s.residual(x, s.norm(attend_to_target(s, s.norm(x, l.attn_norm), l.attention), l.attn_post_norm));
    x = s.residual(x, s.norm(s.ffn(s.norm(x, l.ffn_norm), l), l.ffn_post_norm));
    if (scale != nullptr) x = b.mul(x, nn::vector_f32(b, *scale));
  }
  x = s.norm(x, output_norm_);
  return {.logits = b.output(nn::linear(b, x, output_), "logits"),
          .hidden = b.output(nn::linear(b, x, state_), "hidden")};
}

}  // namespace

Result<std::unique_ptr<Model>> create_gemma4_assistant(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma4Assistant>(
      files, rope,
      {.architecture = "gemma4-assistant", .activation = nn::Activation::gelu, .pairs = RopePairs::halves});
}

}  // namespace tessera
