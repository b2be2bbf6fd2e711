// t5encoder, and the encoder of t5: RMS norms, positions by a bias of scores that depends on the distance and that all
// layers share, scores that are not scaled; GELU with a gate (T5 1.1) or ReLU without.
#include <cfloat>

#include "tessera/models/decoder.h"

namespace tessera {

namespace {

constexpr int64_t kMaxBuckets = 1024;

class T5Encoder final : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(n_buckets_, hp_.integer("attention.relative_buckets_count", 4, kMaxBuckets));
    if (n_buckets_ % 4 != 0)
      return fail(ErrorCode::limit, "{}: key '{}': {}, want a multiple of 4", files_.name(),
                  hp_.full_key("attention.relative_buckets_count"), n_buckets_);
    return {};
  }

  void list_more() override {
    bias_ = weights_.need(name(0, "attn_rel_b.weight"), {n_heads_[0], n_buckets_}, Op::attention);
  }

  DecoderLayer list_layer(int64_t il) override {
    const auto i = static_cast<size_t>(il);
    if (n_heads_[i] != n_heads_[0] || n_heads_kv_[i] != n_heads_[i])
      weights_.fail_with(Error(ErrorCode::unsupported, files_.name() + ": layers differ in heads, or share KV heads"));
    const int64_t n_embd = info_.n_embd, n_q = k_dim_ * n_heads_[i], n_v = v_dim_ * n_heads_[i];
    DecoderLayer l{.attn_norm = norm(name(il, "attn_norm"), {n_embd}),
                   .attention = {.q = linear(name(il, "attn_q"), n_embd, n_q),
                                 .k = linear(name(il, "attn_k"), n_embd, n_q),
                                 .v = linear(name(il, "attn_v"), n_embd, n_v),
                                 .out = linear(name(il, "attn_o"), n_v, n_embd),
                                 .relative_bias = bias_,
                                 .n_heads = n_heads_[i],
                                 .n_heads_kv = n_heads_[i],
                                 .k_dim = k_dim_,
                                 .v_dim = v_dim_,
                                 .cache_layer = il,
                                 .params = {.causal = false}},
                   .ffn_norm = norm(name(il, "ffn_norm"), {n_embd}),
                   .ffn = {.up = linear(name(il, "ffn_up"), n_embd, n_ff(il)),
                           .down = linear(name(il, "ffn_down"), n_ff(il), n_embd),
                           .activation = nn::Activation::gelu}};
    if (weights_.has(name(il, "ffn_gate.weight"))) l.ffn.gate = linear(name(il, "ffn_gate"), n_embd, n_ff(il));
    info_.kv_layers.push_back({.n_heads_kv = n_heads_[i], .k_dim = k_dim_, .v_dim = v_dim_});
    return l;
  }

  Value layer(DecoderStep& s, Value x, const DecoderLayer& l) const override {
    x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    const Value n = s.norm(x, l.ffn_norm);
    if (l.ffn.gate.weight != nullptr) return s.residual(x, s.ffn(n, l));
    const Value hidden = s.b.clamp(nn::linear(s.b, n, l.ffn.up), 0.0f, FLT_MAX);  // ReLU
    return s.residual(x, nn::linear(s.b, hidden, l.ffn.down));
  }

 private:
  static std::string name(int64_t il, std::string_view what) { return "enc." + block(il, what); }

  int64_t n_buckets_ = 0;
  const Tensor* bias_ = nullptr;
};

Result<std::unique_ptr<Model>> create(const ModelFiles& files, const RopeOverrides& rope,
                                      std::string_view architecture) {
  return create_decoder<T5Encoder>(files, rope,
                                   {.architecture = architecture,
                                    .rope = RopePart::none,
                                    .output = OutputWeights::none,
                                    .output_norm = "enc.output_norm",
                                    .is_causal = false});
}

}  // namespace

Result<std::unique_ptr<Model>> create_t5(const ModelFiles& files, const RopeOverrides& rope) {
  return create(files, rope, "t5");
}

Result<std::unique_ptr<Model>> create_t5encoder(const ModelFiles& files, const RopeOverrides& rope) {
  return create(files, rope, "t5encoder");
}

}  // namespace tessera
