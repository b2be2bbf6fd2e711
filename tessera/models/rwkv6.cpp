// rwkv6: RWKV 6 (Peng et al. 2024). Layer norms. A layer is time mixing, then channel mixing, both on x and its
// difference from the previous token's. There is no attention and no rope. Every few layers x is halved, and the file's
// weights are scaled for that.
//
// rwkv6qwen2: Qwen 2 with time mixing in place of attention. RMS norms, KV heads, and the feed-forward block of Qwen 2.
#include "tessera/base/index.h"
#include "tessera/models/rwkv.h"

namespace tessera {

namespace {

class Rwkv6 : public RwkvModel {
 public:
  using RwkvModel::RwkvModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_time_keys());
    TESSERA_ASSIGN(halving_period_, hp_.integer_or("rescale_every_n_layers", 0, 0, kMaxLayers));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    const int64_t n = info_.n_embd, states = add_state_layer({n, n, n * head_dim_});
    time_mixes_.push_back(time_mix(il, states));
    channel_mixes_.push_back({.lerp_k = weights_.need(block(il, "channel_mix_lerp_k.weight"), {n}, Op::mul),
                              .lerp_r = weights_.need(block(il, "channel_mix_lerp_r.weight"), {n}, Op::mul),
                              .key = linear(block(il, "channel_mix_key"), n, n_ff(il)),
                              .value = linear(block(il, "channel_mix_value"), n_ff(il), n),
                              .receptance = linear(block(il, "channel_mix_receptance"), n, n),
                              .state_layer = states});
    return {.attn_norm = norm(il, "attn_norm"), .ffn_norm = norm(il, "attn_norm_2")};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = mix_time(s, x, l);
    // Channel mixing stores the last token's x, so only its result may be reduced to the output tokens.
    const nn::Rwkv6ChannelMix& channel = channel_mixes_[to_size(s.layer)];
    const auto [hidden, gate] = nn::rwkv6_channel_mix(s.b, s.norm(x, l.ffn_norm), channel, s.in);
    const Value y = s.b.mul(nn::linear(s.b, s.wanted(hidden), channel.value), s.wanted(gate));
    x = s.residual(x, y);
    const bool is_halved = halving_period_ > 0 && (s.layer + 1) % halving_period_ == 0;
    return is_halved ? s.b.scale(x, 0.5f) : x;
  }

  Result<> read_time_keys() {
    TESSERA_TRY(read_head_dim());
    n_time_heads_ = n_time_heads_kv_ = info_.n_embd / head_dim_;
    TESSERA_ASSIGN(rank_mix_, hp_.integer("time_mix_extra_dim", 1, kMaxLowRank));
    TESSERA_ASSIGN(rank_decay_, hp_.integer("time_decay_extra_dim", 1, kMaxLowRank));
    return {};
  }

  Value mix_time(LayerBuilder& s, Value x, const TransformerLayer& l) const {
    const nn::Rwkv6TimeMix& time = time_mixes_[to_size(s.layer)];
    return s.b.add(x, nn::linear(s.b, nn::rwkv6_time_mix(s.b, s.norm(x, l.attn_norm), time, s.in), time.out));
  }

  nn::Rwkv6TimeMix time_mix(int64_t il, int64_t states) {
    const int64_t n = info_.n_embd, n_kv = n_time_heads_kv_ * head_dim_;
    const std::string decay = block(il, "time_mix_decay"), heads_norm = block(il, "time_mix_ln"),
                      bonus = block(il, "time_mix_first.weight");
    nn::Rwkv6TimeMix m{.lerp_x = weights_.need(block(il, "time_mix_lerp_x.weight"), {n}, Op::mul),
                       .lerp_down = weights_.need(block(il, "time_mix_w1.weight"), {n, 5 * rank_mix_}, Op::mul_mat),
                       .lerp_up = weights_.need(block(il, "time_mix_w2.weight"), {rank_mix_, n, 5}, Op::mul_mat_heads),
                       .r = linear(block(il, "time_mix_receptance"), n, n),
                       .k = linear(block(il, "time_mix_key"), n, n_kv),
                       .v = linear(block(il, "time_mix_value"), n, n_kv),
                       .g = linear(block(il, "time_mix_gate"), n, n),
                       .w = {.down = linear(decay + "_w1", n, rank_decay_),
                             .up = linear(decay + "_w2", rank_decay_, n),
                             .bias = weights_.need(decay + ".weight", {n}, Op::add)},
                       .bonus = weights_.maybe(bonus, {head_dim_, n_time_heads_}, Op::mul),
                       .norm_weight = weights_.maybe(heads_norm + ".weight", {n}, Op::mul),
                       .out = linear(block(il, "time_mix_output"), n, n),
                       .head_dim = head_dim_,
                       .n_heads = n_time_heads_,
                       .n_heads_kv = n_time_heads_kv_,
                       .state_layer = states};
    if (m.norm_weight != nullptr) m.norm_bias = weights_.need(heads_norm + ".bias", {n}, Op::add);
    list_lerps(m, il);
    return m;
  }

  // Newer files have the factors of all five inputs in one tensor.
  void list_lerps(nn::Rwkv6TimeMix& m, int64_t il) {
    const std::string fused = block(il, "time_mix_lerp_fused.weight");
    if (weights_.has(fused)) {
      m.lerp[0] = weights_.need(fused, {info_.n_embd, 1, 1, 5}, Op::mul);
      return;
    }
    constexpr std::string_view kInputs = "wkvrg";
    for (size_t i = 0; i < kInputs.size(); ++i)
      m.lerp[i] = weights_.need(block(il, "time_mix_lerp_") + kInputs[i] + ".weight", {info_.n_embd}, Op::mul);
  }

  int64_t n_time_heads_ = 0, n_time_heads_kv_ = 0, rank_mix_ = 0, rank_decay_ = 0;
  int64_t halving_period_ = 0;  // 0: never
  std::vector<nn::Rwkv6TimeMix> time_mixes_;
  std::vector<nn::Rwkv6ChannelMix> channel_mixes_;
};

class Rwkv6Qwen2 final : public QwenWithTimeMixing<Rwkv6> {
 public:
  using QwenWithTimeMixing::QwenWithTimeMixing;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_time_keys());
    if (n_heads_kv_[0] > 0) n_time_heads_kv_ = n_heads_kv_[0];
    if (n_time_heads_ % n_time_heads_kv_ != 0)
      return fail(ErrorCode::mismatch, "{}: {} heads for {} KV heads, want a multiple", files_.name(), n_time_heads_,
                  n_time_heads_kv_);
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_rwkv6(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Rwkv6>(files, rope,
                                   {.architecture = "rwkv6",
                                    .norm = nn::NormKind::layer,
                                    .rope = RopePart::none,
                                    .output = OutputWeights::own,
                                    .min_heads_kv = 0});
}

Result<std::unique_ptr<Model>> create_rwkv6qwen2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Rwkv6Qwen2>(
      files, rope,
      {.architecture = "rwkv6qwen2", .rope = RopePart::none, .output = OutputWeights::own, .min_heads_kv = 0});
}

}  // namespace tessera
