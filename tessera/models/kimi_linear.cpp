// kimi-linear: Kimi Linear (Kimi Team 2025). Layers without KV heads are Kimi Delta Attention, a delta rule with a
// decay per channel of the key. The others are latent attention without rope. Dense layers come first. The other layers
// have experts and a shared expert. All layers have the heads of the first.
#include "tessera/models/latent_model.h"

namespace tessera {

namespace {

class KimiLinear final : public LatentModel {
 public:
  using LatentModel::LatentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_eps());
    TESSERA_TRY(read_latent_keys());
    info_.ropes.clear();
    TESSERA_ASSIGN(conv_width_, hp_.integer("ssm.conv_kernel", 2, kMaxConvWidth));
    TESSERA_ASSIGN(kda_dim_, hp_.integer("kda.head_dim", 1, kMaxHeadDim));
    if (n_heads_[0] == 0)
      return fail(ErrorCode::limit, "{}: key '{}': 0 in layer 0, want the heads of all layers", files_.name(),
                  hp_.full_key("attention.head_count"));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    latents_.push_back(is_recurrent(il) ? Latent{} : list_latent(il, n_heads_[0]));
    mixers_.push_back(is_recurrent(il) ? delta_attention(il) : nn::KimiDelta{});
    if (!is_recurrent(il)) l.attention = latent_attention(il, n_heads_[0]);
    l.ffn_norm = norm(il, "ffn_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::KimiDelta& m = mixers_[to_size(s.layer)];
    const Value h = s.norm(x, l.attn_norm);
    const Value y = m.state_layer < 0 ? attend_latent(s, h, l.attention, latents_[to_size(s.layer)])
                                      : nn::linear(s.b, s.wanted(nn::kimi_delta(s.b, h, m, s.in)), m.out);
    x = s.residual(x, y);
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  nn::KimiDelta delta_attention(int64_t il) {
    // Files may have biases and scales of these products, which llama.cpp does not apply.
    constexpr LinearParts kOnlyWeight{.bias = false, .scale = false};
    const int64_t n_embd = info_.n_embd, n = kda_dim_ * n_heads_[0], conv_state = (conv_width_ - 1) * n;
    const auto product = [&](std::string_view name, int64_t n_in, int64_t n_out) {
      return linear(block(il, name), n_in, n_out, kOnlyWeight);
    };
    const auto conv = [&](std::string_view name) -> nn::CausalConv {
      return {.weight = weights_.need(block(il, name), {conv_width_, 1, n}, Op::causal_conv)};
    };
    return {.q = product("attn_q", n_embd, n),
            .k = product("attn_k", n_embd, n),
            .v = product("attn_v", n_embd, n),
            .conv_q = conv("ssm_conv1d_q.weight"),
            .conv_k = conv("ssm_conv1d_k.weight"),
            .conv_v = conv("ssm_conv1d_v.weight"),
            .decay = {.down = product("ssm_f_a", n_embd, kda_dim_),
                      .up = product("ssm_f_b", kda_dim_, n),
                      .bias = weights_.need(block(il, "ssm_dt.bias"), {n}, Op::add)},
            .a = weights_.need(block(il, "ssm_a"), {1, n_heads_[0]}, Op::mul),
            .beta = product("ssm_beta", n_embd, n_heads_[0]),
            .gate = {.down = product("ssm_g_a", n_embd, kda_dim_), .up = product("ssm_g_b", kda_dim_, n)},
            .norm = norm(block(il, "ssm_norm"), {kda_dim_}),
            .out = product("attn_output", n, n_embd),
            .dim = kda_dim_,
            .n_heads = n_heads_[0],
            .eps = eps_,
            .state_layer = add_state_layer({conv_state, kda_dim_ * n, conv_state, conv_state})};
  }

  int64_t conv_width_ = 0, kda_dim_ = 0;
  std::vector<nn::KimiDelta> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_kimi_linear(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<KimiLinear>(files, rope,
                                        {.architecture = "kimi-linear",
                                         .output = OutputWeights::own,
                                         .optional = {.output_scale = false},
                                         .mixture = {.layers = ExpertLayers::after_dense,
                                                     .shared = SharedWidth::counted,
                                                     .gating_key = KeyUse::required,
                                                     .reads_scale = true},
                                         .min_heads_kv = 0});
}

}  // namespace tessera
