// plamo2: PLaMo 2 (Preferred Networks 2025). Layers without KV heads are a form of Mamba with one decay per head, whose
// input product has the gate and x of each head side by side. The others are attention without rope: the first layer
// has no heads, which is why llama.cpp, whose results are followed here, rotates nothing.
#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class Plamo2 final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_ssm_keys(Groups::none));
    if (ssm_.n_inner % ssm_.rank != 0)
      return fail(ErrorCode::mismatch, "{}: ssm.inner_size {}, ssm.time_step_rank {}: want a multiple", files_.name(),
                  ssm_.n_inner, ssm_.rank);
    attention_scale_ = 1.0f / std::sqrt(static_cast<float>(v_dim_));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    mixers_.emplace_back();
    if (!is_recurrent(il)) return Transformer::list_layer(il);
    mixers_.back() = mixer(il);
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attn_post_norm = norm(il, "post_attention_norm"),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .ffn_post_norm = norm(il, "post_ffw_norm")};
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Mixer& m = mixers_[to_size(s.layer)];
    if (m.state_layer < 0) return Transformer::layer(s, x, l);
    const Value y = nn::linear(s.b, s.wanted(mix(s, s.norm(x, l.attn_norm), m)), m.out);
    x = s.residual(x, s.norm(y, l.attn_post_norm));
    return s.residual(x, s.norm(s.ffn(s.norm(x, l.ffn_norm), l), l.ffn_post_norm));
  }

 private:
  struct Mixer {
    nn::Linear in{};  // per head: the gate, x
    nn::CausalConv conv{};
    nn::Linear b_c_dt{};
    nn::Norm b_norm{}, c_norm{}, dt_norm{};
    nn::Linear dt{};
    const Tensor *a = nullptr, *d = nullptr;  // [n_heads]
    nn::Linear out{};
    int64_t rank = 0;  // of dt
    int64_t state_layer = -1;
  };

  Mixer mixer(int64_t il) {
    const auto [width, n, n_state, n_heads, n_groups] = ssm_;
    const int64_t rank = std::max<int64_t>(64, info_.n_embd / 16);
    return {.in = linear(block(il, "ssm_in"), info_.n_embd, 2 * n),
            .conv = {.weight = weights_.need(block(il, "ssm_conv1d.weight"), {width, n}, Op::causal_conv)},
            .b_c_dt = linear(block(il, "ssm_x"), n, rank + 2 * n_state),
            .b_norm = norm(block(il, "ssm_b_norm"), {n_state}),
            .c_norm = norm(block(il, "ssm_c_norm"), {n_state}),
            .dt_norm = norm(block(il, "ssm_dt_norm"), {rank}),
            .dt = linear(block(il, "ssm_dt"), rank, n_heads),
            .a = weights_.need(block(il, "ssm_a"), {n_heads}, Op::selective_scan),
            .d = weights_.need(block(il, "ssm_d"), {n_heads}, Op::selective_scan),
            .out = linear(block(il, "ssm_out"), n, info_.n_embd),
            .rank = rank,
            .state_layer = add_state_layer({(width - 1) * n, n_state * n})};
  }

  Value mix(LayerBuilder& s, Value x, const Mixer& m) const {
    GraphBuilder& b = s.b;
    const int64_t n = ssm_.n_inner, n_state = ssm_.n_state, n_heads = ssm_.rank, dim = n / n_heads;
    const int64_t n_tokens = b.spec(x).shape()[1];
    const Value all = nn::linear(b, x, m.in);
    const Value projected = nn::part_columns(b, all, n_heads, dim, dim);
    const Value u = b.silu(nn::causal_conv(b, projected, m.conv, s.in, m.state_layer, 0));
    const Value b_c_dt = nn::linear(b, u, m.b_c_dt);
    const auto state_part = [&](int64_t first, const nn::Norm& n_norm) {
      return b.reshape(nn::norm(b, nn::columns(b, b_c_dt, first, n_state), n_norm), {n_state, 1, n_tokens});
    };
    const Value dt =
        b.softplus(nn::linear(b, nn::norm(b, nn::columns(b, b_c_dt, 2 * n_state, m.rank), m.dt_norm), m.dt));
    const Value y =
        b.selective_scan(b.reshape(u, {dim, n_heads, n_tokens}), dt, b.reshape(nn::vector_f32(b, *m.a), {1, n_heads}),
                         state_part(0, m.b_norm), state_part(n_state, m.c_norm), nn::vector_f32(b, *m.d),
                         s.in.state(b, m.state_layer, 1), s.in.segments);
    const Value gate = nn::part_columns(b, all, n_heads, 0, dim);
    return b.swiglu(gate, b.reshape(y, {n, n_tokens}));
  }

  std::vector<Mixer> mixers_;  // by layer
};

}  // namespace

Result<std::unique_ptr<Model>> create_plamo2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Plamo2>(files, rope,
                                    {.architecture = "plamo2",
                                     .form = LayerForm::sandwich,
                                     .ffn = FfnForm::fused,
                                     .qk_norms = QkNorms::each_head,
                                     .rope = RopePart::none,
                                     .optional = {.qkv_scale = false},
                                     .min_heads_kv = 0});
}

}  // namespace tessera
