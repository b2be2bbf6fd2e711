// t5 and t5encoder (Raffel et al. 2020): RMS norms, and GELU with a gate (T5 1.1) or ReLU without. Positions enter as a
// bias of the scores that depends on the distance. All layers of a stack share it. Scores are not scaled. The decoder's
// layers attend to themselves, then to the encoder's output, whose K and V the encoder's graph stores.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kMaxBuckets = 1024;

class T5Encoder : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(n_buckets_, hp_.integer("attention.relative_buckets_count", 4, kMaxBuckets));
    if (n_buckets_ % 4 != 0)
      return fail(ErrorCode::limit, "{}: key '{}': {}, want a multiple of 4", files_.name(),
                  hp_.full_key("attention.relative_buckets_count"), n_buckets_);
    for (size_t il = 0; il < n_heads_.size(); ++il)
      if (n_heads_[il] != n_heads_[0] || n_heads_kv_[il] != n_heads_[0])
        return fail(ErrorCode::unsupported, "{}: layers differ in heads, or share KV heads", files_.name());
    return {};
  }

  void list_more() override { bias_ = relative_bias("enc"); }
  TransformerLayer list_layer(int64_t il) override { return stack_layer("enc", il, n_ff(il), bias_); }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    return feed_forward(s, s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention)), l);
  }

  // --- common to both stacks

  const Tensor* relative_bias(std::string_view stack) {
    return weights_.need(fmt::format("{}.blk.0.attn_rel_b.weight", stack), {n_heads_[0], n_buckets_},
                         Op::paged_attention);
  }

  /// NAME_q, NAME_k, NAME_v, NAME_o. Uses the first free layer of the cache.
  nn::Attention heads(const std::string& name) {
    const int64_t n_embd = info_.n_embd, n_q = k_dim_ * n_heads_[0], n_v = v_dim_ * n_heads_[0];
    nn::Attention a{.q = linear(name + "_q", n_embd, n_q),
                    .k = linear(name + "_k", n_embd, n_q),
                    .v = linear(name + "_v", n_embd, n_v),
                    .out = linear(name + "_o", n_v, n_embd),
                    .n_heads = n_heads_[0],
                    .n_heads_kv = n_heads_[0],
                    .k_dim = k_dim_,
                    .v_dim = v_dim_,
                    .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                    .params = {.causal = false}};
    info_.kv_layers.push_back({.n_heads_kv = n_heads_[0], .k_dim = k_dim_, .v_dim = v_dim_});
    return a;
  }

  TransformerLayer stack_layer(std::string_view stack, int64_t il, int64_t n_ff, const Tensor* bias) {
    const int64_t n_embd = info_.n_embd;
    const auto name = [&](const char* what) { return fmt::format("{}.blk.{}.{}", stack, il, what); };
    TransformerLayer l{.attn_norm = norm(name("attn_norm"), {n_embd}),
                       .attention = heads(name("attn")),
                       .ffn_norm = norm(name("ffn_norm"), {n_embd}),
                       .ffn = {.up = linear(name("ffn_up"), n_embd, n_ff),
                               .down = linear(name("ffn_down"), n_ff, n_embd),
                               .activation = nn::Activation::relu}};
    l.attention.relative_bias = bias;
    if (weights_.has(name("ffn_gate.weight"))) {
      l.ffn.gate = linear(name("ffn_gate"), n_embd, n_ff);
      l.ffn.activation = nn::Activation::gelu;
    }
    return l;
  }

  static Value feed_forward(LayerBuilder& s, Value x, const TransformerLayer& l) {
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  int64_t n_buckets_ = 0;
  const Tensor* bias_ = nullptr;
};

class T5 final : public T5Encoder {
 public:
  using T5Encoder::T5Encoder;

  Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override {
    return b.output(encoded(b, in, cache), "embeddings");
  }

  void build_encoder(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override {
    const Value x = encoded(b, in, cache);
    const int64_t n_tokens = b.spec(in.tokens).shape()[0];
    for (const Cross& cross : cross_) {
      const nn::Attention& a = cross.attention;
      const Value cells = in.cache(a.cache_layer).cells;
      const Value k = b.reshape(nn::linear(b, x, a.k), {a.k_dim, a.n_heads_kv, n_tokens});
      const Value v = b.reshape(nn::linear(b, x, a.v), {a.v_dim, a.n_heads_kv, n_tokens});
      b.kv_store(b.tensor(cache.k(a.cache_layer)), k, cells, KvSide::k);
      b.kv_store(b.tensor(cache.v(a.cache_layer)), v, cells, KvSide::v);
    }
  }

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(T5Encoder::read_keys());
    n_encoder_layers_ = n_layers_;
    TESSERA_ASSIGN(n_layers_, hp_.integer_or("decoder_block_count", n_layers_, 1, kMaxLayers));
    info_.n_layers = n_layers_;
    TESSERA_ASSIGN(const int64_t start, hp_.integer_or("decoder_start_token_id", 0, 0, info_.n_vocab - 1));
    info_.start_token = static_cast<int32_t>(start);
    // If the output layer is the embedding, its input is scaled as in the training of T5. llama.cpp omits this, which
    // changes the temperature but not the order of tokens.
    if (!weights_.has("output.weight")) logit_scale_ = 1.0f / std::sqrt(static_cast<float>(info_.n_embd));
    return {};
  }

  void list_more() override {
    T5Encoder::list_more();
    for (int64_t il = 0; il < n_encoder_layers_; ++il) encoder_.push_back(T5Encoder::list_layer(il));
    encoder_norm_ = norm("enc.output_norm", {info_.n_embd});
    for (int64_t il = 0; il < n_layers_; ++il) {
      const std::string name = fmt::format("dec.blk.{}.cross_attn", il);
      cross_.push_back({norm(name + "_norm", {info_.n_embd}), heads(name)});
    }
    info_.encoder_layers = std::exchange(info_.kv_layers, {});
    decoder_bias_ = relative_bias("dec");
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = stack_layer("dec", il, n_ff(0), decoder_bias_);
    l.attention.params.causal = true;
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    GraphBuilder& b = s.b;
    const auto& [cross_norm, cross] = cross_[to_size(s.layer)];
    const nn::Heads self = nn::project(b, s.norm(x, l.attn_norm), l.attention);
    x = b.add(x, nn::linear(b, nn::attend(b, self, l.attention, s.in, s.cache), l.attention.out));
    const Value q = nn::linear(b, s.norm(x, cross_norm), cross.q);
    x = s.residual(x, nn::linear(b, s.wanted(nn::attend_to_encoder(b, q, cross, s.in)), cross.out));
    return feed_forward(s, x, l);
  }

 private:
  /// Attention to the encoder's output. K and V are in layers of the encoder's cache.
  struct Cross {
    nn::Norm norm;
    nn::Attention attention;
  };

  Value encoded(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
    LayerBuilder s(b, in, cache, n_encoder_layers_);
    Value x = embed(s);
    for (; s.layer < n_encoder_layers_; ++s.layer) x = T5Encoder::layer(s, x, encoder_[to_size(s.layer)]);
    return s.norm(x, encoder_norm_);
  }

  int64_t n_encoder_layers_ = 0;
  std::vector<TransformerLayer> encoder_;
  nn::Norm encoder_norm_;
  std::vector<Cross> cross_;  // by layer of the decoder
  const Tensor* decoder_bias_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Model>> create_t5(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<T5>(files, rope,
                                {.architecture = "t5", .rope = RopePart::none, .output_norm = "dec.output_norm"});
}

Result<std::unique_ptr<Model>> create_t5encoder(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<T5Encoder>(files, rope,
                                       {.architecture = "t5encoder",
                                        .rope = RopePart::none,
                                        .output = OutputWeights::none,
                                        .output_norm = "enc.output_norm",
                                        .is_causal = false});
}

}  // namespace tessera
