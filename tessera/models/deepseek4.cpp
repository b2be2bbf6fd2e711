// deepseek4: DeepSeek V4. The residual is several streams (graph/ops/streams.h). Attention has one KV head, whose keys
// are also the values. It sees recent tokens in a window, and entries that stand for 4 or 128 older tokens each; of
// those of 4 tokens only the best ones, by an indexer with entries of its own. All layers have experts. In the first
// ones a table chooses them by the token.
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"
#include "tessera/nn/views.h"

namespace tessera {

namespace {

using nn::part_of_rows;

constexpr int64_t kShortRatio = 4, kLongRatio = 128;  // tokens per entry

/// The weights that make entries of `dim` elements.
struct Compressor {
  nn::Linear rows{}, gates{};    // [n_embd, dim], or [n_embd, 2 dim] if entries overlap
  const Tensor* bias = nullptr;  // of gates, by the position in an entry
  nn::Norm norm{};
  int64_t dim = 0;
  int64_t rows_layer = -1;  // layer of the cache that stores rows and gates
  CompressionParams params{};
};

/// The weights of a block's streams.
struct StreamWeights {
  nn::Linear product{};
  const Tensor *bias = nullptr, *scale = nullptr;
};

/// The weights of a layer besides those of TransformerLayer.
struct Block {
  nn::Linear q_a{}, q_b{}, kv{};
  nn::Norm q_a_norm{}, kv_norm{};
  const Tensor* out_a = nullptr;  // one matrix for each group of heads
  StreamWeights attention{}, ffn{};
  Compressor entries{};                // without rows: the layer sees only the window
  Compressor index{};                  // keys of the entries, for the choice
  const Tensor* expert_ids = nullptr;  // i32 [n_used, n_vocab], or null
};

class DeepSeek4 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(n_latent_q_, hp_.integer("attention.q_lora_rank", 1, kMaxWidth));
    TESSERA_ASSIGN(token_window_, hp_.integer("attention.sliding_window", 1, kMaxContext));
    TESSERA_ASSIGN(n_out_groups_, hp_.integer("attention.output_group_count", 1, kMaxHeads));
    TESSERA_ASSIGN(n_out_latent_, hp_.integer("attention.output_lora_rank", 1, kMaxWidth));
    TESSERA_ASSIGN(streams_.n_streams, hp_.integer("hyper_connection.count", 1, kMaxStreams));
    TESSERA_ASSIGN(streams_.n_iterations, hp_.integer("hyper_connection.sinkhorn_iterations", 1, kMaxStreamIterations));
    TESSERA_ASSIGN(streams_.eps, hp_.real("hyper_connection.epsilon", 0.0f, 1.0f));
    TESSERA_ASSIGN(n_hashed_, hp_.integer("hash_layer_count", 0, kMaxLayers));
    TESSERA_ASSIGN(limits_, hp_.real_per_layer("swiglu_clamp_exp", n_blocks_));
    TESSERA_TRY(read_ratios());
    TESSERA_TRY(read_key_choice());
    for (size_t il = 0; il < n_heads_.size(); ++il)
      if (n_heads_kv_[il] != 1 || n_heads_[il] % n_out_groups_ != 0)
        return fail(ErrorCode::mismatch, "{}: layer {}: {} heads and {} KV heads: want 1 KV head, and a multiple of {}",
                    files_.name(), il, n_heads_[il], n_heads_kv_[il], n_out_groups_);
    return read_ropes();
  }

  void list_more() override { head_ = list_streams("output_hc", streams_.n_streams, 1); }

  TransformerLayer list_layer(int64_t il) override {
    constexpr LinearParts kWeight{.bias = false, .scale = false};
    const int64_t n_embd = info_.n_embd, n_heads = n_heads_[to_size(il)], ratio = ratios_[to_size(il)];
    const int64_t n_products = streams_.n_streams * (streams_.n_streams + 2);
    Block w{.q_a = linear(block(il, "attn_q_a"), n_embd, n_latent_q_, kWeight),
            .q_b = linear(block(il, "attn_q_b"), n_latent_q_, n_heads * k_dim_, kWeight),
            .kv = linear(block(il, "attn_kv"), n_embd, k_dim_, kWeight),
            .q_a_norm = norm(block(il, "attn_q_a_norm"), {n_latent_q_}),
            .kv_norm = norm(block(il, "attn_kv_a_norm"), {k_dim_}),
            .out_a = weights_.need_stacked(block(il, "attn_output_a.weight"),
                                           {n_heads / n_out_groups_ * k_dim_, n_out_latent_, n_out_groups_},
                                           Op::mul_mat_heads),
            .attention = list_streams(block(il, "hc_attn"), n_products, 3),
            .ffn = list_streams(block(il, "hc_ffn"), n_products, 3)};
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"),
        .attention = {.out = linear(block(il, "attn_output_b"), n_out_groups_ * n_out_latent_, n_embd, kWeight),
                      .sinks = weights_.need(block(il, "attn_sinks.weight"), {n_heads}, Op::paged_attention),
                      .n_heads = n_heads,
                      .n_heads_kv = 1,
                      .k_dim = k_dim_,
                      .v_dim = k_dim_,
                      .rope = ratio == 0 ? 0 : entry_rope_,
                      .cache_layer = add_cache_layer({.window = token_window_, .stride = ratio}, k_dim_),
                      .params = {.scale = 1.0f / std::sqrt(static_cast<float>(k_dim_)),
                                 .window = token_window_,
                                 .latent_v = k_dim_}},
        .ffn_norm = norm(il, "ffn_norm")};
    if (ratio != 0) w.entries = list_compressor(block(il, "attn_compressor"), k_dim_, ratio);
    if (ratio == kShortRatio) {
      nn::KeyChoice& choice = l.attention.choice = key_choice_;
      choice.q = linear(block(il, "indexer.attn_q_b"), n_latent_q_, choice.n_heads * choice.dim, kWeight);
      // The order of scores does not depend on their scale, 1 / sqrt(dim * n_heads).
      choice.weights = linear(block(il, "indexer.proj"), n_embd, choice.n_heads, kWeight);
      choice.cache_layer = add_cache_layer({.window = token_window_, .stride = ratio}, choice.dim);
      w.index = list_compressor(block(il, "indexer_compressor"), choice.dim, ratio);
    }
    add_ffn(l, il);
    l.experts.limit = l.shared_expert.limit = swiglu_limit(limits_[to_size(il)]);
    l.experts.limits_gate_input = l.shared_expert.limits_gate_input = true;
    if (il < n_hashed_)
      w.expert_ids =
          weights_.need(block(il, "ffn_gate_tid2eid.weight"), {n_experts_used_, info_.n_vocab}, Op::get_rows);
    blocks_.push_back(w);
    return l;
  }

  /// The streams of a token as one row [n_embd * n_streams, t]. They are equal at first.
  Value embed(LayerBuilder& s) const override {
    const Value x = Transformer::embed(s);
    Value all = x;
    for (int64_t i = 1; i < streams_.n_streams; ++i) all = s.b.concat(all, x);
    return all;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Block& w = blocks_[to_size(s.layer)];
    const Value weights = weights_of(s, x, w.attention);
    const Value y = attend(s, s.norm(joined(s, x, weights), l.attn_norm), l.attention, w);
    x = updated(s, s.wanted(x), y, s.wanted(weights));
    const Value ffn_weights = weights_of(s, x, w.ffn);
    x = updated(s, x, ffn(s, s.norm(joined(s, x, ffn_weights), l.ffn_norm), l, w), ffn_weights);
    return s.layer + 1 < n_layers_ ? x : joined(s, x, weights_of(s, x, head_));
  }

 private:
  Result<> read_ratios() {
    constexpr std::string_view kKey = "attention.compress_ratios";
    const GgufValue* value = files_.metadata().find(hp_.full_key(kKey));
    // The array may have elements for the blocks of prediction heads.
    const auto n = value == nullptr || !value->is_array() ? n_blocks_ : static_cast<int64_t>(value->size());
    if (n < n_layers_ || n > kMaxLayers)
      return fail(ErrorCode::mismatch, "{}: key '{}' has {} elements for {} layers", files_.name(), hp_.full_key(kKey),
                  n, n_layers_);
    TESSERA_ASSIGN(ratios_, hp_.per_layer(kKey, n, 0, kLongRatio));
    for (const int64_t ratio : ratios_)
      if (ratio != 0 && ratio != kShortRatio && ratio != kLongRatio)
        return fail(ErrorCode::unsupported, "{}: key '{}': {}, want 0, {} or {}", files_.name(), hp_.full_key(kKey),
                    ratio, kShortRatio, kLongRatio);
    return {};
  }

  /// Layers without entries have rope 0, which is not scaled. The others have YaRN with a magnitude of 1.
  Result<> read_ropes() {
    nn::RopeConfig scaled = info_.ropes[0].config;
    info_.ropes[0].config.scaling = nn::RopeScaling::none;
    info_.ropes[0].config.factor = info_.ropes[0].config.attn_factor = 1.0f;
    TESSERA_ASSIGN(scaled.freq_base, hp_.real("attention.compress_rope_freq_base", 1.0f + 1e-3f, 1e12f));
    scaled.attn_factor = 1.0f;
    scaled.yarn_log_multiplier = 1.0f;
    entry_rope_ = add_rope(scaled);
    return {};
  }

  int64_t add_cache_layer(KvLayerShape shape, int64_t dim) {
    shape.n_heads_kv = 1;
    shape.k_dim = dim;
    info_.kv_layers.push_back(shape);
    return std::ssize(info_.kv_layers) - 1;
  }

  StreamWeights list_streams(const std::string& name, int64_t n_products, int64_t n_scales) {
    return {.product = {.weight = weights_.need(name + "_fn.weight", {streams_.n_streams * info_.n_embd, n_products},
                                                Op::mul_mat)},
            .bias = weights_.need(name + "_base.weight", {n_products}, Op::stream_weights),
            .scale = weights_.need(name + "_scale.weight", {n_scales}, Op::stream_weights)};
  }

  Compressor list_compressor(const std::string& name, int64_t dim, int64_t ratio) {
    constexpr LinearParts kWeight{.bias = false, .scale = false};
    const bool overlaps = ratio == kShortRatio;
    const int64_t n = overlaps ? 2 * dim : dim, n_rows = overlaps ? 2 * ratio : ratio;
    const int64_t layer = add_cache_layer({.v_dim = n, .window = n_rows, .type = DType::f32}, n);
    return {.rows = linear(name + "_kv", info_.n_embd, n, kWeight),
            .gates = linear(name + "_gate", info_.n_embd, n, kWeight),
            .bias = weights_.need(name + "_ape.weight", {n, ratio}, Op::compress_rows),
            .norm = norm(name + "_norm", {dim}),
            .dim = dim,
            .rows_layer = layer,
            .params = {.ratio = ratio, .overlaps = overlaps}};
  }

  Value weights_of(LayerBuilder& s, Value x, const StreamWeights& w) const {
    const Value products = nn::linear(s.b, s.b.rms_norm(x, Value(), eps_), w.product);
    return s.b.stream_weights(products, nn::vector_f32(s.b, *w.bias), nn::vector_f32(s.b, *w.scale), streams_);
  }

  Value as_streams(LayerBuilder& s, Value x) const {
    return s.b.reshape(x, {info_.n_embd, streams_.n_streams, s.b.spec(x).shape()[1]});
  }

  Value joined(LayerBuilder& s, Value x, Value weights) const { return s.b.join_streams(as_streams(s, x), weights); }

  Value updated(LayerBuilder& s, Value x, Value y, Value weights) const {
    const Value streams = s.b.update_streams(as_streams(s, x), y, weights);
    return s.b.reshape(streams, {info_.n_embd * streams_.n_streams, s.b.spec(x).shape()[1]});
  }

  /// Rotates the last elements of each row of x [dim, n_heads, t].
  Value rotated(LayerBuilder& s, Value x, Value table, bool inverse = false) const {
    const int64_t dim = s.b.spec(x).shape()[0], n_rot = info_.ropes[0].config.n_rot;
    const Value turned = s.b.rope(part_of_rows(s.b, x, dim - n_rot, n_rot), table, RopePairs::adjacent, inverse);
    return dim == n_rot ? turned : s.b.concat(part_of_rows(s.b, x, 0, dim - n_rot), turned);
  }

  /// Attention on x with its output projections. In the last layer only tokens whose output is wanted.
  Value attend(LayerBuilder& s, Value x, const nn::Attention& a, const Block& w) const {
    GraphBuilder& b = s.b;
    const int64_t n_tokens = b.spec(x).shape()[1];
    const Value table = s.ropes[to_size(a.rope)].table;
    const Value q_latent = s.norm(nn::linear(b, x, w.q_a), w.q_a_norm);
    const Value q_heads = b.reshape(nn::linear(b, q_latent, w.q_b), {k_dim_, a.n_heads, n_tokens});
    const Value q = rotated(s, b.rms_norm(q_heads, Value(), eps_), table);
    const Value k = rotated(s, b.reshape(s.norm(nn::linear(b, x, w.kv), w.kv_norm), {k_dim_, 1, n_tokens}), table);
    Value y = w.entries.rows.weight == nullptr ? nn::attend(b, {.q = q, .k = k, .v = {}}, a, s.in, s.cache)
                                               : attend_to_entries(s, {.q = q, .k = k, .v = {}}, x, q_latent, a, w);
    y = rotated(s, b.reshape(y, {k_dim_, a.n_heads, n_tokens}), table, true);
    y = s.wanted(b.reshape(y, {k_dim_ * a.n_heads, n_tokens}));
    const int64_t n_in = k_dim_ * a.n_heads / n_out_groups_, n_rows = b.spec(y).shape()[1];
    y = b.mul_mat_heads(b.tensor(*w.out_a), b.reshape(y, {n_in, n_out_groups_, n_rows}));
    return nn::linear(b, b.reshape(y, {n_out_latent_ * n_out_groups_, n_rows}), a.out);
  }

  /// The heads' outputs [k_dim * n_heads, t] of attention to tokens and entries.
  Value attend_to_entries(LayerBuilder& s, const nn::Heads& heads, Value x, Value q_latent, const nn::Attention& a,
                          const Block& w) const {
    GraphBuilder& b = s.b;
    if (s.in.groups.empty() || !s.in.cache(a.cache_layer).cells.present()) {
      b.fail_with(Error(ErrorCode::unsupported, "attention without a cache: to compressed entries"));
      return {};
    }
    const nn::CacheInputs& at = s.in.cache(a.cache_layer);
    s.of_group.resize(s.in.groups.size());
    LayerBuilder::GroupValues& shared = s.of_group[s.in.group_of_layer[to_size(a.cache_layer)]];
    if (!shared.entry_rope.present())
      shared.entry_rope = nn::rope_table(b, at.entry_starts, info_.ropes[to_size(a.rope)], s.cache.config().n_ctx,
                                         nn::RopeMagnitude::applied);
    const auto stored = [&](Value cache, const Compressor& c) {
      return b.kv_store(cache, entries_of(s, x, c, at.entry_cells, shared.entry_rope), at.entry_cells, KvSide::k);
    };
    // K is stored before the attention, so that a token's result does not depend on how a batch was split.
    const Value tokens = b.kv_store(b.tensor(s.cache.k(a.cache_layer)), heads.k, at.cells, KvSide::k);
    const Value keys = stored(tokens, w.entries);
    const KeyWindowParams window{
        .window = token_window_, .ratio = w.entries.params.ratio, .n_entry_blocks = at.n_entry_blocks};
    Value seen = shared.keys;
    if (const nn::KeyChoice& c = a.choice; c.weights.weight != nullptr) {
      const Value index = stored(b.tensor(s.cache.k(c.cache_layer)), w.index);
      if (s.cache.config().n_ctx / kShortRatio > c.params.n_chosen) {
        const Value q = b.reshape(nn::linear(b, q_latent, c.q), {c.dim, c.n_heads, b.spec(x).shape()[1]});
        const Value chosen =
            b.choose_keys(rotated(s, q, s.ropes[to_size(a.rope)].table), index, nn::linear(b, x, c.weights),
                          at.entry_positions, s.in.sequences, at.blocks, at.valid, c.params);
        seen = b.window_keys(chosen, s.in.positions, at.blocks, window);
      }
    }
    if (!seen.present()) seen = shared.keys = b.window_keys(Value(), s.in.positions, at.blocks, window);
    AttentionParams params = a.params;
    params.window = 0;  // `seen` has the window
    params.int16 = s.in.int16_attention;
    const Value y = b.paged_attention(heads.q, keys, Value(), at.positions, s.in.sequences, at.blocks, at.valid,
                                      nn::vector_f32(b, *a.sinks), params, Value(), seen);
    return b.reshape(y, {k_dim_ * a.n_heads, b.spec(y).shape()[2]});
  }

  /// Stores the rows of x for later entries. Returns the entries [dim, 1, t] that tokens complete.
  Value entries_of(LayerBuilder& s, Value x, const Compressor& c, Value entry_cells, Value entry_rope) const {
    GraphBuilder& b = s.b;
    const int64_t n_tokens = b.spec(x).shape()[1];
    const nn::CacheInputs& at = s.in.cache(c.rows_layer);
    const auto store = [&](const Tensor& cache, const nn::Linear& layer, KvSide side) {
      const Value y = nn::linear(b, x, layer);
      return b.kv_store(b.tensor(cache), b.reshape(y, {b.spec(y).shape()[0], 1, n_tokens}), at.cells, side);
    };
    const Value rows = store(s.cache.k(c.rows_layer), c.rows, KvSide::k);
    const Value gates = store(s.cache.v(c.rows_layer), c.gates, KvSide::v);
    const Value y = b.compress_rows(nn::vector_f32(b, *c.bias), rows, gates, s.in.positions, s.in.sequences, at.blocks,
                                    at.valid, entry_cells, c.params);
    return rotated(s, b.reshape(s.norm(y, c.norm), {c.dim, 1, n_tokens}), entry_rope);
  }

  Value ffn(LayerBuilder& s, Value x, const TransformerLayer& l, const Block& w) const {
    if (w.expert_ids == nullptr) return s.ffn(x, l);
    const nn::Router& router = l.experts.router;
    const Value ids = s.wanted(s.b.get_rows(s.b.tensor(*w.expert_ids), s.in.tokens));
    return s.ffn(x, l,
                 {s.b.expert_routes(ids, router.n_experts),
                  s.b.expert_weights(nn::router_scores(s.b, x, router), ids,
                                     {.normalize = router.normalize, .scale = router.scale})});
  }

  int64_t n_latent_q_ = 0, token_window_ = 0, n_out_groups_ = 0, n_out_latent_ = 0;
  int64_t n_hashed_ = 0;  // layers whose experts a table chooses
  int entry_rope_ = 0;    // of layers with entries
  StreamParams streams_{};
  std::vector<int64_t> ratios_;  // by layer: tokens per entry, or 0
  std::vector<float> limits_;
  StreamWeights head_{};
  std::vector<Block> blocks_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_deepseek4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<DeepSeek4>(files, rope,
                                       {.architecture = "deepseek4",
                                        .output = OutputWeights::own,
                                        .optional = {.output_scale = false, .rope_factors = false},
                                        .mixture = {.layers = ExpertLayers::all,
                                                    .shared = SharedWidth::counted,
                                                    .gating_key = KeyUse::required,
                                                    .reads_norm = true,
                                                    .reads_scale = true}});
}

}  // namespace tessera
