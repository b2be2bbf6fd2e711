#include "tessera/models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"

namespace tessera {

// --- the graph

Value LayerBuilder::wanted(Value x) {
  if (layer + 1 < n_layers_ || !x.present()) return x;
  if (!in.outputs.present()) {
    b.stop();
    return {};
  }
  // Outputs are in order and distinct. If all tokens are outputs, x is returned unchanged.
  const int64_t n_rows = b.spec(x).shape()[1], n_outputs = b.spec(in.outputs).shape()[0];
  return n_rows == n_outputs ? x : b.get_rows(x, in.outputs);
}

Value LayerBuilder::attend(Value x, const nn::Attention& a) {
  nn::Heads heads = nn::rotate(b, nn::project(b, x, a), a, ropes);
  if (q_factors.present() && a.has_temperature) heads.q = b.mul(heads.q, q_factors);
  const Value chosen = a.choice.present() ? nn::choose_keys(b, x, x, a.choice, ropes, in, cache) : Value();
  const Value y = nn::attend(b, heads, a, in, cache, chosen);
  return nn::linear(b, wanted(a.gate.product.weight == nullptr ? y : nn::gated(b, y, x, a)), a.out);
}

Value LayerBuilder::ffn(Value x, const TransformerLayer& l) {
  if (l.experts.router.weight == nullptr) return nn::ffn(b, x, l.ffn);
  return ffn(x, l, nn::route(b, x, l.experts.router));
}

Value LayerBuilder::ffn(Value x, const TransformerLayer& l, const nn::Routed& routed) {
  const Value y = nn::experts(b, x, l.experts, routed);
  if (l.shared_expert.down.weight == nullptr) return y;
  Value shared = nn::ffn(b, x, l.shared_expert);
  if (l.shared_gate.weight != nullptr) shared = b.mul(shared, b.sigmoid(nn::linear(b, x, l.shared_gate)));
  return b.add(y, shared);
}

Value LayerBuilder::residual(Value x, Value y) {
  return b.add(wanted(x), residual_scale == 1.0f ? y : b.scale(y, residual_scale));
}

Value LayerBuilder::parallel(Value x, Value attn_input, Value ffn_input, const TransformerLayer& l) {
  const Value y = attend(attn_input, l.attention);
  return residual(x, b.add(y, ffn(wanted(ffn_input), l)));
}

Value Transformer::layer(LayerBuilder& s, Value x, const TransformerLayer& l) const {
  if (traits_.form == LayerForm::parallel) {
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, n, n, l);
  }
  if (traits_.form == LayerForm::norm_sum) {
    x = s.norm(s.residual(x, s.attend(x, l.attention)), l.attn_post_norm);
    return s.norm(s.residual(x, s.ffn(x, l)), l.ffn_post_norm);
  }
  x = s.residual(x, s.norm(s.attend(s.norm(x, l.attn_norm), l.attention), l.attn_post_norm));
  return s.residual(x, s.norm(s.ffn(s.norm(x, l.ffn_norm), l), l.ffn_post_norm));
}

Value Transformer::embed(LayerBuilder& s) const {
  Value x = s.b.get_rows(s.b.tensor(*token_embd_), s.in.tokens);
  if (embedding_scale_ != 1.0f) x = s.b.scale(x, embedding_scale_);
  if (token_types_ != nullptr) {
    const Value types = nn::vector_f32(s.b, *token_types_);
    Layout first = s.b.spec(types).layout;
    first.shape[1] = 1;
    x = s.b.add(x, s.b.view(types, first, 0));
  }
  if (position_embd_ != nullptr) x = s.b.add(x, s.b.get_rows(s.b.tensor(*position_embd_), s.in.positions));
  return s.norm(x, embd_norm_);
}

LayerBuilder Transformer::layer_builder(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache,
                                        int64_t n_layers) const {
  LayerBuilder s(b, in, cache, n_layers);
  for (const nn::Rope& rope : info_.ropes)
    s.ropes.push_back(
        {nn::rope_table(b, in.positions, rope, cache.config().n_ctx, nn::RopeMagnitude::applied), rope.config.pairs});
  s.residual_scale = residual_scale_;
  if (temperature_.beta != 0.0f) s.q_factors = b.temperature(in.positions, temperature_);
  return s;
}

// inputs: gets the input of each layer, then the output of the last one.
Value Transformer::run_layers(LayerBuilder& s, std::vector<Value>* inputs) const {
  Value x = embed(s);
  for (; s.layer < std::ssize(layers_); ++s.layer) {
    if (inputs != nullptr) inputs->push_back(x);
    const int64_t block = s.layer % n_layers_;
    if (block == 0 && s.layer > 0 && norms_loops_) x = s.norm(x, output_norm_);
    x = s.b.adapt_layer(layer(s, x, layers_[to_size(s.layer)]), block);
    s.b.name(x, fmt::format("layer.{}", s.layer));
  }
  if (inputs != nullptr) inputs->push_back(x);
  return x;
}

Value Transformer::final_rows(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  LayerBuilder s = layer_builder(b, in, cache, std::ssize(layers_));
  const Value x = run_layers(s);
  return s.norm(x, output_norm_);
}

Value Transformer::logits(GraphBuilder& b, Value x, const nn::Linear& output) const {
  x = nn::linear(b, x, output);
  if (logit_scale_ != 1.0f) x = b.scale(x, logit_scale_);
  if (final_soft_cap_ != 0.0f) x = b.soft_cap(x, final_soft_cap_);
  return b.output(masked_logits(b, x), "logits");
}

Value Transformer::build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  return logits(b, final_rows(b, in, cache), output_);
}

Value Transformer::build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  return b.output(final_rows(b, in, cache), "embeddings");
}

Value Transformer::build_rank(GraphBuilder& b, Value x) const { return b.output(nn::rank(b, x, rank_), "scores"); }

// --- keys

Result<> Transformer::read() {
  info_.architecture = traits_.architecture;
  TESSERA_TRY(read_common_keys());
  TESSERA_TRY(read_heads());
  if (traits_.rope != RopePart::none) TESSERA_TRY(read_main_rope());
  TESSERA_TRY(read_pooling());
  if (traits_.rope_sections != KeyUse::ignored) TESSERA_TRY(read_rope_sections());
  if (traits_.clamp != KeyUse::ignored) {
    TESSERA_ASSIGN(clamp_, traits_.clamp == KeyUse::required ? hp_.real("attention.clamp_kqv", 0.0f, 1e30f)
                                                             : hp_.real_or("attention.clamp_kqv", 0.0f, 0.0f, 1e30f));
  }
  if (traits_.logit_scale != KeyUse::ignored) {
    TESSERA_ASSIGN(const float scale, traits_.logit_scale == KeyUse::required
                                          ? hp_.real("logit_scale", 1e-6f, 1e6f)
                                          : hp_.real_or("logit_scale", 0.0f, 0.0f, 1e6f));
    if (scale != 0.0f) logit_scale_ = scale;
  }
  TESSERA_TRY(read_window());
  TESSERA_TRY(read_mixture());
  if (traits_.has_loops) TESSERA_TRY(read_loops());
  if (traits_.has_width_scale) embedding_scale_ = std::sqrt(static_cast<float>(info_.n_embd));
  TESSERA_TRY(read_keys());
  list_outer();
  list_more();
  list_rank_head();
  for (int64_t il = 0; il < n_layers_; ++il) layers_.push_back(list_layer(il));
  repeat_layers();
  TESSERA_TRY(weights_.finish());
  if (!info_.is_causal && !info_.recurrent_layers.empty())
    return fail(ErrorCode::unsupported, "{}: recurrent layers that are not causal", files_.name());
  finish_cache_layers(info_, layers_, 0);
  return {};
}

Result<> Transformer::read_common_keys() {
  TESSERA_ASSIGN(info_.name, files_.metadata().get_or<std::string_view>(keys::kName, ""));
  TESSERA_ASSIGN(info_.n_vocab, hp_.n_vocab());
  TESSERA_ASSIGN(info_.n_ctx_train, hp_.integer("context_length", 1, kMaxContext));
  TESSERA_ASSIGN(info_.n_embd, hp_.integer("embedding_length", 1, kMaxWidth));
  TESSERA_ASSIGN(n_blocks_, hp_.integer("block_count", 1, kMaxLayers));
  TESSERA_ASSIGN(const int64_t n_nextn, hp_.integer_or("nextn_predict_layers", 0, 0, n_blocks_ - 1));
  info_.n_layers = n_layers_ = n_blocks_ - n_nextn;
  if (hp_.has("feed_forward_length")) {
    TESSERA_ASSIGN(n_ff_, hp_.per_layer("feed_forward_length", n_blocks_, 0, kMaxWidth));
  }
  const bool is_rms = traits_.norm == nn::NormKind::rms;
  TESSERA_ASSIGN(eps_,
                 hp_.real(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0.0f, 1.0f));
  TESSERA_ASSIGN(n_experts_, hp_.integer_or("expert_count", 0, 0, kMaxExperts));
  if (n_experts_ > 0) {
    TESSERA_ASSIGN(n_experts_used_, hp_.integer("expert_used_count", 1, n_experts_));
  }
  return {};
}

Result<> Transformer::read_pooling() {
  TESSERA_ASSIGN(info_.is_causal, hp_.flag_or("attention.causal", true));
  info_.is_causal = info_.is_causal && traits_.is_causal;
  info_.has_logits = traits_.output != OutputWeights::none;
  constexpr int64_t kUnspecified = 0xffffffff;  // -1 in a key of unsigned type
  if (hp_.has("pooling_type") && !hp_.integer("pooling_type", kUnspecified, kUnspecified)) {
    TESSERA_ASSIGN(const int64_t type, hp_.integer("pooling_type", 0, nn::kNPoolings - 1));
    info_.pooling = static_cast<nn::Pooling>(type);
  }
  return {};
}

Result<> Transformer::read_heads() {
  const int64_t min_heads = traits_.min_heads_kv;
  TESSERA_ASSIGN(n_heads_, hp_.per_layer("attention.head_count", n_blocks_, min_heads, kMaxHeads));
  n_heads_kv_ = n_heads_;
  if (hp_.has("attention.head_count_kv")) {
    TESSERA_ASSIGN(n_heads_kv_, hp_.per_layer("attention.head_count_kv", n_blocks_, min_heads, kMaxHeads));
  }
  for (size_t il = 0; il < n_heads_.size(); ++il)
    if (n_heads_kv_[il] != 0 && n_heads_[il] % n_heads_kv_[il] != 0)
      return fail(ErrorCode::mismatch, "{}: layer {}: {} heads for {} KV heads, want a multiple", files_.name(), il,
                  n_heads_[il], n_heads_kv_[il]);
  const auto with_heads = std::ranges::find_if(n_heads_, [](int64_t n) { return n > 0; });
  const int64_t dim = with_heads == n_heads_.end() ? 1 : info_.n_embd / *with_heads;
  TESSERA_ASSIGN(k_dim_, hp_.integer_or("attention.key_length", dim, 1, kMaxHeadDim));
  TESSERA_ASSIGN(v_dim_, hp_.integer_or("attention.value_length", dim, 1, kMaxHeadDim));
  if (std::min(k_dim_, v_dim_) < 1 || std::max(k_dim_, v_dim_) > kMaxHeadDim)
    return fail(ErrorCode::limit, "{}: heads of {} and {} elements, want 1 to {}", files_.name(), k_dim_, v_dim_,
                kMaxHeadDim);
  return {};
}

Result<> Transformer::read_main_rope() {
  TESSERA_ASSIGN(nn::RopeConfig config, hp_.rope(info_.n_ctx_train, overrides_));
  config.pairs = traits_.pairs;
  TESSERA_ASSIGN(config.n_rot, hp_.integer_or("rope.dimension_count", k_dim_, 2, kMaxHeadDim));
  if (config.n_rot % 2 != 0 || config.n_rot > k_dim_ || (traits_.rope == RopePart::whole && config.n_rot != k_dim_))
    return fail(ErrorCode::mismatch, "{}: rope.dimension_count {} and key length {}: want {}", files_.name(),
                config.n_rot, k_dim_,
                traits_.rope == RopePart::whole ? "the same even number" : "an even number of that at most");
  add_rope(config);
  return {};
}

int Transformer::add_rope(const nn::RopeConfig& config) {
  const auto found = std::ranges::find(info_.ropes, config, &nn::Rope::config);
  const auto index = static_cast<int>(found - info_.ropes.begin());
  if (found == info_.ropes.end()) info_.ropes.push_back({.config = config});
  return index;
}

Result<> Transformer::read_window() {
  const WindowTraits& t = traits_.window;
  has_window_.assign(to_size(n_blocks_), false);
  if (t.period == 0 && t.pattern == KeyUse::ignored) return {};
  if (t.only_with_layers > 0 && t.only_with_layers != n_blocks_) return {};
  TESSERA_ASSIGN(window_, t.is_required ? hp_.integer("attention.sliding_window", 1, kMaxContext)
                                        : hp_.integer_or("attention.sliding_window", t.absent, 0, kMaxContext));
  if (window_ == 0) return {};
  TESSERA_TRY(read_window_layers());
  return read_window_rope();
}

Result<> Transformer::read_window_layers() {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const WindowTraits& t = traits_.window;
  int64_t period = t.period;
  if (t.pattern == KeyUse::required || (t.pattern == KeyUse::optional && hp_.has(kPattern))) {
    const GgufValue* value = files_.metadata().find(hp_.full_key(kPattern));
    if (value != nullptr && value->is_array()) {
      // Some arrays have no flags for the blocks of prediction heads.
      const auto n_flags = static_cast<int64_t>(value->size());
      TESSERA_ASSIGN(has_window_, hp_.flag_per_layer(kPattern, n_flags == n_layers_ ? n_layers_ : n_blocks_));
      has_window_.resize(to_size(n_blocks_), false);
      return {};
    }
    TESSERA_ASSIGN(period, hp_.integer(kPattern, 0, kMaxLayers));
  }
  const GgufValue* given = files_.metadata().find(hp_.full_key(kPattern));
  if (t.reads_period && given != nullptr && !given->is_array()) {
    TESSERA_ASSIGN(period, hp_.integer(kPattern, 0, kMaxLayers));
  }
  for (int64_t il = 0; il < n_layers_; ++il)
    has_window_[to_size(il)] = period == 0 || il % period != (t.begins_without ? 0 : period - 1);
  return {};
}

Result<> Transformer::read_window_rope() {
  if (info_.ropes.empty()) return {};
  const WindowTraits& t = traits_.window;
  nn::RopeConfig config = info_.ropes[0].config;
  if (t.has_rope_base) {
    const float absent = t.rope_base == 0.0f ? config.freq_base : t.rope_base;
    TESSERA_ASSIGN(config.freq_base, hp_.real_or("rope.freq_base_swa", absent, 1.0f + 1e-3f, 1e12f));
  }
  if (t.has_own_n_rot) {
    TESSERA_ASSIGN(config.n_rot, hp_.integer_or("rope.dimension_count_swa", config.n_rot, 2, k_dim_));
    if (config.n_rot % 2 != 0)
      return fail(ErrorCode::mismatch, "{}: rope.dimension_count_swa {}: want an even number", files_.name(),
                  config.n_rot);
  }
  if (!t.is_stretched || !t.is_scaled) config.factor = 1.0f;
  if (!t.is_scaled) config.scaling = nn::RopeScaling::none, config.attn_factor = 1.0f;
  window_rope_ = add_rope(config);
  return {};
}

Result<> Transformer::read_yarn_keys() {
  nn::RopeConfig& config = info_.ropes[0].config;
  const auto read = [&](float& value, std::string_view key, float min, float max, bool is_given) -> Result<> {
    if (is_given) return {};
    TESSERA_ASSIGN(value, hp_.real_or(key, value, min, max));
    return {};
  };
  TESSERA_TRY(
      read(config.yarn_beta_fast, "rope.scaling.yarn_beta_fast", 1e-6f, 1e6f, overrides_.yarn_beta_fast.has_value()));
  TESSERA_TRY(
      read(config.yarn_beta_slow, "rope.scaling.yarn_beta_slow", 1e-6f, 1e6f, overrides_.yarn_beta_slow.has_value()));
  return read(config.yarn_log_multiplier, "rope.scaling.yarn_log_multiplier", 0.0f, 1e3f, false);
}

Result<> Transformer::read_temperature(int64_t length) {
  TESSERA_ASSIGN(temperature_.beta, hp_.real_or("attention.temperature_scale", 0.0f, -1e3f, 1e3f));
  TESSERA_ASSIGN(const int64_t given, hp_.integer_or("attention.temperature_length", 0, 0, kMaxContext));
  temperature_.length = given > 0 ? given : length;
  return {};
}

// Rope 0 pairs halves if the file has sections. In text all sections have the token's position.
Result<> Transformer::read_rope_sections() {
  constexpr size_t kSections = 4;
  if (traits_.rope_sections == KeyUse::optional && !hp_.has("rope.dimension_sections")) return {};
  TESSERA_ASSIGN(const auto sections, hp_.per_layer("rope.dimension_sections", kSections, 0, kMaxHeadDim));
  if (sections[0] == 0 || sections[1] == 0) return {};
  nn::RopeConfig& config = info_.ropes[0].config;
  config.pairs = RopePairs::halves;
  const int64_t n_first = sections[0] + sections[1] + sections[2];
  if (sections[3] > 0 && config.n_rot / 2 > n_first)
    return fail(ErrorCode::unsupported,
                "{}: key '{}': the fourth section begins at pair {} of {}, and is not supported", files_.name(),
                hp_.full_key("rope.dimension_sections"), n_first, config.n_rot / 2);
  return {};
}

Result<> Transformer::read_key_choice() {
  TESSERA_ASSIGN(key_choice_.n_heads, hp_.integer("attention.indexer.head_count", 1, kMaxHeads));
  TESSERA_ASSIGN(key_choice_.dim, hp_.integer("attention.indexer.key_length", 1, kMaxHeadDim));
  TESSERA_ASSIGN(key_choice_.params.n_chosen, hp_.integer("attention.indexer.top_k", 1, kMaxContext));
  if (!info_.ropes.empty() && info_.ropes[0].config.n_rot > key_choice_.dim)
    return fail(ErrorCode::mismatch, "{}: key '{}': {}, want at least rope.dimension_count, {}", files_.name(),
                hp_.full_key("attention.indexer.key_length"), key_choice_.dim, info_.ropes[0].config.n_rot);
  return {};
}

nn::KeyChoice Transformer::add_key_choice() {
  nn::KeyChoice choice = key_choice_;
  choice.cache_layer = static_cast<int64_t>(info_.kv_layers.size());
  info_.kv_layers.push_back({.n_heads_kv = 1, .k_dim = choice.dim});
  return choice;
}

Result<> Transformer::read_loops() {
  TESSERA_ASSIGN(n_loops_, hp_.integer_or("num_loops", 1, 1, kMaxLayers / n_layers_));
  TESSERA_ASSIGN(const bool skips_norm, hp_.flag_or("skip_loop_final_norm", false));
  norms_loops_ = !skips_norm;
  return {};
}

// The layers of later passes have the weights of the first, and K and V of their own.
void Transformer::repeat_layers() {
  for (int64_t il = n_layers_; il < n_loops_ * n_layers_; ++il) {
    TransformerLayer layer = layers_[to_size(il - n_layers_)];
    const KvLayerShape kv = info_.kv_layers[to_size(layer.attention.cache_layer)];
    layer.attention.cache_layer = std::ssize(info_.kv_layers);
    info_.kv_layers.push_back(kv);
    layers_.push_back(std::move(layer));
  }
}

Result<> Transformer::read_multipliers() {
  // 0 means "not scaled".
  const auto factor = [&](std::string_view key) { return hp_.real_or(key, 0.0f, 0.0f, 1e6f); };
  TESSERA_ASSIGN(const float embedding_scale, factor("embedding_scale"));
  TESSERA_ASSIGN(const float residual_scale, factor("residual_scale"));
  TESSERA_ASSIGN(attention_scale_, factor("attention.scale"));
  if (embedding_scale != 0.0f) embedding_scale_ = embedding_scale;
  if (residual_scale != 0.0f) residual_scale_ = residual_scale;
  return {};
}

// kv_ropes and kv_blocks, and the windows of kv_layers.
void Transformer::finish_cache_layers(ModelInfo& info, std::span<const TransformerLayer> layers,
                                      int64_t first_block) const {
  info.kv_ropes.assign(info.kv_layers.size(), nn::kNoRope);
  info.kv_blocks.assign(info.kv_layers.size(), -1);
  for (size_t il = 0; il < layers.size(); ++il) {
    const TransformerLayer& layer = layers[il];
    if (layer.attention.cache_layer < 0) continue;
    const auto i = to_size(layer.attention.cache_layer);
    if (info.kv_blocks[i] < 0) info.kv_blocks[i] = first_block + static_cast<int64_t>(il) % n_layers_;
    info.kv_ropes[i] = layer.attention.rope;
    // Keys of bidirectional models are in the cache for one micro-batch only, so none can be dropped.
    info.kv_layers[i].window = info.is_causal ? layer.attention.params.window : 0;
    if (const nn::KeyChoice& choice = layer.attention.choice; choice.present())
      info.kv_ropes[to_size(choice.cache_layer)] = choice.rope;
  }
  // Other layers of the cache follow that of their block's attention.
  for (size_t i = 1; i < info.kv_blocks.size(); ++i)
    if (info.kv_blocks[i] < 0) info.kv_blocks[i] = info.kv_blocks[i - 1];
}

}  // namespace tessera
