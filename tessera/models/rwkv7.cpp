// rwkv7: RWKV 7 (Peng et al. 2025). Layer norms. A layer is time mixing, x += out(mix(norm(x))), then channel mixing, x
// += value(relu(key(shifted norm(x)))^2). There is no attention and no rope. v of each later layer is interpolated with
// v of the first layer.
//
// arwkv7: Qwen 2 with the time mixing of RWKV 7 in place of attention. RMS norms, and the feed-forward block of Qwen 2.
#include "tessera/base/index.h"
#include "tessera/models/rwkv.h"

namespace tessera {

namespace {

class Rwkv7 : public RwkvModel {
 public:
  using RwkvModel::RwkvModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_head_dim());
    TESSERA_ASSIGN(rank_w_, hp_.integer("attention.decay_lora_rank", 1, kMaxLowRank));
    TESSERA_ASSIGN(rank_a_, hp_.integer("attention.iclr_lora_rank", 1, kMaxLowRank));
    TESSERA_ASSIGN(rank_v_, hp_.integer("attention.value_residual_mix_lora_rank", 1, kMaxLowRank));
    TESSERA_ASSIGN(rank_g_, hp_.integer_or("attention.gate_lora_rank", 0, 0, kMaxLowRank));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    const int64_t n = info_.n_embd;
    const int64_t states = add_state_layer({n, n, n * head_dim_});
    time_mixes_.push_back(time_mix(il, states));
    channel_mixes_.push_back({.lerp = weights_.need(block(il, "channel_mix_lerp_k.weight"), {n}, Op::mul),
                              .key = linear(block(il, "channel_mix_key"), n, n_ff(il)),
                              .value = linear(block(il, "channel_mix_value"), n_ff(il), n),
                              .state_layer = states});
    return {.attn_norm = norm(il, "attn_norm"), .ffn_norm = norm(il, "attn_norm_2")};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = mix_time(s, x, l);
    const nn::Rwkv7ChannelMix& channel = channel_mixes_[to_size(s.layer)];
    // Channel mixing stores the last token's x, so only its result may be reduced to the output tokens.
    const Value h = nn::rwkv7_channel_mix(s.b, s.norm(x, l.ffn_norm), channel, s.in);
    return s.residual(x, nn::linear(s.b, s.wanted(h), channel.value));
  }

  Value mix_time(LayerBuilder& s, Value x, const TransformerLayer& l) const {
    const nn::Rwkv7TimeMix& time = time_mixes_[to_size(s.layer)];
    const Value y = nn::rwkv7_time_mix(s.b, s.norm(x, l.attn_norm), time, s.in, s.shared);
    return s.b.add(x, nn::linear(s.b, y, time.out));
  }

  const Tensor* vector(int64_t il, std::string_view name, Op use) {
    return weights_.need(block(il, name) + ".weight", {info_.n_embd}, use);
  }

  // time_mix_{which}1, time_mix_{which}2, and the bias time_mix_{which}0 if there is one.
  nn::LowRank low_rank(int64_t il, std::string_view which, int64_t rank, bool has_bias) {
    const std::string name = block(il, "time_mix_") + std::string(which);
    const int64_t n = info_.n_embd;
    return {.down = linear(name + "1", n, rank),
            .up = linear(name + "2", rank, n),
            .bias = has_bias ? weights_.need(name + "0.weight", {n}, Op::add) : nullptr};
  }

  nn::Rwkv7TimeMix time_mix(int64_t il, int64_t states) {
    const int64_t n = info_.n_embd;
    nn::Rwkv7TimeMix m{
        .lerp = weights_.need(block(il, "time_mix_lerp_fused.weight"), {n, 1, 1, rank_g_ > 0 ? 6 : 5}, Op::mul),
        .r = linear(block(il, "time_mix_receptance"), n, n),
        .k = linear(block(il, "time_mix_key"), n, n),
        .v = linear(block(il, "time_mix_value"), n, n),
        .w = low_rank(il, "w", rank_w_, true),
        .a = low_rank(il, "a", rank_a_, true),
        .k_k = vector(il, "time_mix_k_k", Op::mul),
        .k_a = vector(il, "time_mix_k_a", Op::mul),
        .r_k = vector(il, "time_mix_r_k", Op::mul),
        .out = linear(block(il, "time_mix_output"), n, n),
        .head_dim = head_dim_,
        .n_heads = n / head_dim_,
        .state_layer = states};
    if (needs_head_norm_ || weights_.has(block(il, "time_mix_ln.weight"))) {
      m.norm_weight = vector(il, "time_mix_ln", Op::mul);
      m.norm_bias = weights_.need(block(il, "time_mix_ln.bias"), {n}, Op::add);
    }
    if (il > 0) m.v_mix = low_rank(il, "v", rank_v_, true);  // files store the first layer's, which is not used
    if (rank_g_ > 0) m.g = low_rank(il, "g", rank_g_, false);
    return m;
  }

  int64_t rank_w_ = 0, rank_a_ = 0, rank_v_ = 0, rank_g_ = 0;
  bool needs_head_norm_ = true;
  std::vector<nn::Rwkv7TimeMix> time_mixes_;
  std::vector<nn::Rwkv7ChannelMix> channel_mixes_;
};

class Arwkv7 final : public QwenWithTimeMixing<Rwkv7> {
 public:
  using QwenWithTimeMixing::QwenWithTimeMixing;

 protected:
  void list_more() override { needs_head_norm_ = false; }
};

}  // namespace

Result<std::unique_ptr<Model>> create_rwkv7(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Rwkv7>(files, rope,
                                   {.architecture = "rwkv7",
                                    .norm = nn::NormKind::layer,
                                    .rope = RopePart::none,
                                    .output = OutputWeights::own,
                                    .min_heads_kv = 0});
}

Result<std::unique_ptr<Model>> create_arwkv7(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Arwkv7>(
      files, rope, {.architecture = "arwkv7", .rope = RopePart::none, .output = OutputWeights::own, .min_heads_kv = 0});
}

}  // namespace tessera
