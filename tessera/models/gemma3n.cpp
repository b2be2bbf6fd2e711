// gemma3n: like gemma3, with these differences. Norm weights are stored without 1 added, scores are not scaled, and V
// is normed without a weight. Each token has four streams. Before a layer, each stream is predicted from all four. The
// layer computes on the first one. Its error then corrects all of them (AltUp, Baykal et al. 2023). Beside attention
// there is a product with two small matrices (LAuReL, Menghani et al. 2024). In the first layers, only gates far above
// their mean are used. Layers from 20 on use K and V of layers 18 and 19.
#include <array>
#include <cmath>
#include <numbers>

#include "tessera/base/index.h"
#include "tessera/models/per_layer_model.h"
#include "tessera/nn/recurrent.h"

namespace tessera {

namespace {

constexpr int64_t kStreams = 4;
constexpr int64_t kFirstShared = 20;                // layers from here on have no K and V of their own
constexpr int64_t kSparseLayers = 10;               // the first layers, whose gates are sparse
constexpr float kSparseDeviations = 1.6448533535f;  // 95 % of a normal distribution are below
constexpr int64_t kPerLayer = 256, kLaurelRank = 64;
constexpr float kSoftCap = 30.0f;
constexpr float kLeastLength = 1e-12f;  // of a stream that is scaled to the length of another

using Streams = std::array<Value, kStreams>;  // each [n_embd, t]

/// The weights of a layer besides the common ones.
struct StreamLayer {
  nn::Linear router{}, predict{}, correct{};
  nn::Norm router_norm{};
  const Tensor* correct_scale = nullptr;  // [n_embd]
  nn::Linear laurel_left{}, laurel_right{};
  nn::Norm laurel_norm{};
  PerLayerGate gate{};
};

class Gemma3n final : public PerLayerModel {
 public:
  using PerLayerModel::PerLayerModel;

 protected:
  Result<> read_keys() override {
    attention_scale_ = 1.0f;
    final_soft_cap_ = kSoftCap;
    TESSERA_ASSIGN(n_per_layer_, hp_.integer_or("embedding_length_per_layer_input", kPerLayer, 1, kMaxWidth));
    return {};
  }

  void list_more() override {
    const Shape shape{info_.n_embd, info_.n_embd, kStreams - 1};
    streams_in_ = weights_.need("altup_proj.weight", shape, Op::mul_mat_heads);
    streams_out_ = weights_.need("altup_unembd_proj.weight", shape, Op::mul_mat_heads);
    list_per_layer();
  }

  TransformerLayer list_layer(int64_t il) override {
    const int64_t n = info_.n_embd, rank = laurel_rank();
    stream_layers_.push_back({.router = linear(block(il, "altup_router"), n, kStreams),
                              .predict = linear(block(il, "altup_predict_coef"), kStreams, kStreams * kStreams),
                              .correct = linear(block(il, "altup_correct_coef"), kStreams, kStreams),
                              .router_norm = norm(il, "altup_router_norm"),
                              .correct_scale = weights_.need(block(il, "altup_correct_scale.weight"), {n}, Op::mul),
                              .laurel_left = linear(block(il, "laurel_l"), n, rank),
                              .laurel_right = linear(block(il, "laurel_r"), rank, n),
                              .laurel_norm = norm(il, "laurel_post_norm"),
                              .gate = per_layer_gate(il)});
    if (il < kFirstShared) return Transformer::list_layer(il);
    return {.attn_norm = norm(il, "attn_norm"),
            .attn_post_norm = norm(il, "post_attention_norm"),
            .attention = attention_to_shared(il),
            .ffn_norm = norm(il, "ffn_norm"),
            .ffn_post_norm = norm(il, "post_ffw_norm"),
            .ffn = dense_ffn(il)};
  }

  /// The streams of a token are one row [kStreams * n_embd].
  Value embed(LayerBuilder& s) const override {
    GraphBuilder& b = s.b;
    const Value x = Transformer::embed(s);
    embed_per_layer(s, x);
    const Shape shape = b.spec(x).shape();
    const Value copies = b.reshape(b.concat(x, b.concat(x, x)), {shape[0], kStreams - 1, shape[1]});
    const Value others = b.mul_mat_heads(b.tensor(*streams_in_), copies);
    return b.concat(x, b.reshape(as_long_as(b, others, x), {(kStreams - 1) * shape[0], shape[1]}));
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    GraphBuilder& b = s.b;
    const StreamLayer& e = stream_layers_[to_size(s.layer)];
    Streams p = predicted(s, x, e);
    const Value n = s.norm(p[0], l.attn_norm);
    const Value attended = s.norm(attend_shared(s, n, l.attention), l.attn_post_norm);
    for (Value& stream : p) stream = s.wanted(stream);
    const Value in = s.wanted(n);
    const Value small = nn::linear(b, nn::linear(b, in, e.laurel_left), e.laurel_right);
    const Value laurel = b.add(in, s.norm(small, e.laurel_norm));
    const Value u = b.scale(b.add(b.add(p[0], attended), laurel), 1.0f / std::numbers::sqrt2_v<float>);
    const Value f = b.add(u, s.norm(feed_forward(s, s.norm(u, l.ffn_norm), l.ffn), l.ffn_post_norm));
    Streams c = corrected(s, p, f, e);
    const Value more = per_layer(s, b.mul(c[0], nn::vector_f32(b, *e.correct_scale)), e.gate);
    for (int64_t i = 1; i < kStreams; ++i) c[to_size(i)] = b.add(c[to_size(i)], more);
    return s.layer + 1 < n_layers_ ? joined(b, c) : merged(b, c);
  }

 private:
  int64_t laurel_rank() const {
    const ModelFiles::Tensor* left = files_.find_tensor("blk.0.laurel_l.weight");
    return left == nullptr ? kLaurelRank : left->info.shape[1];
  }

  nn::Attention attention_to_shared(int64_t il) {
    const auto i = to_size(il);
    nn::Attention a{.q = linear(block(il, "attn_q"), info_.n_embd, k_dim_ * n_heads_[i], {.scale = false}),
                    .out = linear(block(il, "attn_output"), v_dim_ * n_heads_[i], info_.n_embd),
                    .q_norm = norm(block(il, "attn_q_norm"), {k_dim_}),
                    .n_heads = n_heads_[i],
                    .n_heads_kv = n_heads_kv_[i],
                    .k_dim = k_dim_,
                    .v_dim = v_dim_,
                    .rope = 0,
                    .cache_layer = kFirstShared - (has_window_[i] ? 2 : 1),
                    .params = {.scale = attention_scale_}};
    place(a, il);
    if (n_heads_kv_[i] != n_heads_kv_[to_size(a.cache_layer)])
      weights_.fail_with(Error(ErrorCode::mismatch, files_.name() + ": layer " + std::to_string(il) +
                                                        " has other KV heads than layer " +
                                                        std::to_string(a.cache_layer) + ", whose K and V it uses"));
    return a;
  }

  /// x [n_embd, kStreams - 1, t], each stream with the norm of the token's row of `like` [n_embd, t].
  static Value as_long_as(GraphBuilder& b, Value x, Value like) {
    const Value length = b.sqrt(b.row_sum(b.mul(like, like)));
    return b.mul(b.l2_norm(x, kLeastLength), b.reshape(length, {1, 1, b.spec(like).shape()[1]}));
  }

  /// tanh(router (norm(x) / n_embd)) [kStreams, t].
  static Value routed(LayerBuilder& s, Value x, const StreamLayer& e) {
    const float scale = 1.0f / static_cast<float>(s.b.spec(x).shape()[0]);
    return s.b.soft_cap(nn::linear(s.b, s.b.scale(s.norm(x, e.router_norm), scale), e.router), 1.0f);
  }

  /// Each stream plus a weighted sum of all.
  static Streams predicted(LayerBuilder& s, Value x, const StreamLayer& e) {
    GraphBuilder& b = s.b;
    const int64_t n = b.spec(x).shape()[0] / kStreams;
    Streams in, out;
    for (int64_t i = 0; i < kStreams; ++i) in[to_size(i)] = nn::columns(b, x, i * n, n);
    const Value weights = nn::linear(b, routed(s, in[0], e), e.predict);
    for (int64_t i = 0; i < kStreams; ++i) {
      Value sum = in[to_size(i)];
      for (int64_t k = 0; k < kStreams; ++k)
        sum = b.add(sum, b.mul(in[to_size(k)], nn::columns(b, weights, i * kStreams + k, 1)));
      out[to_size(i)] = sum;
    }
    return out;
  }

  /// Each prediction plus 1 + a weight times the error of the first one.
  static Streams corrected(LayerBuilder& s, const Streams& p, Value f, const StreamLayer& e) {
    GraphBuilder& b = s.b;
    const Value error = b.add(f, b.scale(p[0], -1.0f));
    const Value weights = nn::linear(b, routed(s, f, e), e.correct);
    Streams out;
    for (int64_t i = 0; i < kStreams; ++i)
      out[to_size(i)] = b.add(b.add(p[to_size(i)], error), b.mul(error, nn::columns(b, weights, i, 1)));
    return out;
  }

  static Value feed_forward(LayerBuilder& s, Value x, const nn::Ffn& ffn) {
    GraphBuilder& b = s.b;
    if (s.layer >= kSparseLayers) return nn::ffn(b, x, ffn);
    const Value gate = nn::linear(b, x, ffn.gate), up = nn::linear(b, x, ffn.up);
    const auto n = static_cast<float>(b.spec(gate).shape()[0]);
    // Only products repeat a value along a row.
    const Value ones = b.exp(b.scale(gate, 0.0f)), minus_mean = b.scale(b.row_sum(gate), -1.0f / n);
    const Value centered = b.add(gate, b.mul(ones, minus_mean));
    const Value variance = b.scale(b.row_sum(b.mul(centered, centered)), 1.0f / (n - 1.0f));
    const Value above = b.add(centered, b.mul(ones, b.scale(b.sqrt(variance), -kSparseDeviations)));
    return nn::linear(b, b.geglu(nn::activate(b, above, nn::Activation::relu), up), ffn.down);
  }

  static Value joined(GraphBuilder& b, const Streams& x) {
    return b.concat(b.concat(x[0], x[1]), b.concat(x[2], x[3]));
  }

  /// The mean of the first stream and products of the others.
  Value merged(GraphBuilder& b, const Streams& x) const {
    const Shape shape = b.spec(x[0]).shape();
    const Value others = b.reshape(b.concat(x[1], b.concat(x[2], x[3])), {shape[0], kStreams - 1, shape[1]});
    const Value out = b.reshape(as_long_as(b, b.mul_mat_heads(b.tensor(*streams_out_), others), x[0]),
                                {(kStreams - 1) * shape[0], shape[1]});
    Value sum = x[0];
    for (int64_t i = 0; i + 1 < kStreams; ++i) sum = b.add(sum, nn::columns(b, out, i * shape[0], shape[0]));
    return b.scale(sum, 1.0f / kStreams);
  }

  const Tensor *streams_in_ = nullptr, *streams_out_ = nullptr;
  std::vector<StreamLayer> stream_layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma3n(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma3n>(
      files, rope,
      {.architecture = "gemma3n",
       .form = LayerForm::sandwich,
       .activation = nn::Activation::gelu,
       .qk_norms = QkNorms::heads,
       .pairs = RopePairs::halves,
       .has_width_scale = true,
       .window = {
           .period = 5, .reads_period = true, .is_required = true, .rope_base = 10000.0f, .is_stretched = false}});
}

}  // namespace tessera
