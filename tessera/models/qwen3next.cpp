// qwen3next, qwen35, qwen35moe: three of four layers are gated delta nets. The fourth is attention, whose heads are
// multiplied by the sigmoid of a gate. The projection of q also computes that gate. q and k are normed per head, and
// rope is over halves of a part of the head. The norm before the feed-forward block is named post_attention_norm.
// qwen3next and qwen35moe have experts in every layer, beside a shared one with a scalar gate; qwen35 is dense. Value
// head j belongs to key head j % n_k in qwen35 and qwen35moe, and to j / (n_v / n_k) in qwen3next. Norm weights except
// ssm_norm are stored with 1 added.
#include <fmt/format.h>

#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

enum class Family : uint8_t { qwen3next, qwen35 };

class Qwen3Next : public RecurrentModel {
 public:
  Qwen3Next(const ModelFiles& files, const TransformerTraits& traits, const RopeOverrides& overrides)
      : RecurrentModel(files, traits, overrides),
        family_(traits.architecture == "qwen3next" ? Family::qwen3next : Family::qwen35) {}

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_eps());
    TESSERA_TRY(read_ssm_keys(Groups::wanted));
    if (ssm_.n_inner != ssm_.n_state * ssm_.rank || ssm_.rank % ssm_.n_groups != 0)
      return fail(
          ErrorCode::mismatch,
          "{}: ssm.inner_size {}, ssm.state_size {}, ssm.time_step_rank {}, ssm.group_count {}: want state_size "
          "* time_step_rank, and groups that divide the rank",
          files_.name(), ssm_.n_inner, ssm_.n_state, ssm_.rank, ssm_.n_groups);
    if (family_ == Family::qwen35) TESSERA_TRY(require_one_position());
    return read_layer_kinds();
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    mixers_.push_back(is_linear_[to_size(il)] ? delta_net(il) : nn::DeltaNet{});
    if (!is_linear_[to_size(il)]) l.attention = gated_attention(il);
    l.ffn_norm = norm(il, "post_attention_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::DeltaNet& m = mixers_[to_size(s.layer)];
    const Value h = s.norm(x, l.attn_norm);
    const Value y = m.state_layer < 0 ? attend(s, h, l.attention)
                                      : nn::linear(s.b, s.wanted(nn::delta_net(s.b, h, m, s.in)), m.out);
    x = s.residual(x, y);
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  // Checks that text, which has one position where images have three, rotates all pairs: pairs of a fourth section of
  // rope.dimension_sections would not be rotated. Within the length of the sections, pair i belongs to time, height or
  // width for i % 3 = 0, 1 or 2.
  Result<> require_one_position() {
    TESSERA_ASSIGN(const auto sections, hp_.per_layer("rope.dimension_sections", 4, 0, kMaxHeadDim));
    for (int64_t pair = 0; pair < info_.ropes[0].config.n_rot / 2; ++pair)
      if (pair >= 3 * sections[to_size(pair % 3)])
        return fail(ErrorCode::unsupported, "{}: rope.dimension_sections [{}, {}, {}, {}] leave pair {} unrotated",
                    files_.name(), sections[0], sections[1], sections[2], sections[3], pair);
    return {};
  }

  Result<> read_layer_kinds() {
    if (hp_.has("attention.recurrent_layers")) {
      TESSERA_ASSIGN(is_linear_, hp_.flag_per_layer("attention.recurrent_layers", n_blocks_));
    } else {
      TESSERA_ASSIGN(const int64_t interval, hp_.integer_or("full_attention_interval", 4, 1, kMaxLayers));
      for (int64_t il = 0; il < n_layers_; ++il) is_linear_.push_back((il + 1) % interval != 0);
    }
    is_linear_.resize(to_size(n_layers_));
    is_linear_.resize(to_size(n_blocks_), false);  // a prediction head has attention
    return {};
  }

  nn::DeltaNet delta_net(int64_t il) {
    const auto& [width, n_v_all, dim, n_v, n_k] = ssm_;
    const int64_t n_qk = dim * n_k, n_conv = 2 * n_qk + n_v_all, n_embd = info_.n_embd;
    nn::DeltaNet m{.conv = {.weight = weights_.need(block(il, "ssm_conv1d.weight"), {width, n_conv}, Op::causal_conv)},
                   .dt_bias = weights_.need(block(il, "ssm_dt.bias"), {n_v}, Op::add),
                   .a = weights_.need(block(il, "ssm_a"), {n_v}, Op::mul),
                   .norm = norm(block(il, "ssm_norm"), {dim}),
                   .out = linear(block(il, "ssm_out"), n_v_all, n_embd),
                   .dim = dim,
                   .n_k_heads = n_k,
                   .n_v_heads = n_v,
                   .key_heads = family_ == Family::qwen35 ? KeyHeads::tiled : KeyHeads::grouped,
                   .eps = eps_};
    std::vector<int64_t> states{(width - 1) * n_conv, dim * n_v_all};
    if (weights_.has(block(il, "ssm_in.weight"))) {  // older files
      m.qkvz = linear(block(il, "ssm_in"), n_embd, n_conv + n_v_all);
      states = {(width - 1) * n_qk, dim * n_v_all, (width - 1) * n_qk, (width - 1) * n_v_all};
    } else {
      m.qkv = linear(block(il, "attn_qkv"), n_embd, n_conv);
      m.z = linear(block(il, "attn_gate"), n_embd, n_v_all);
    }
    if (family_ == Family::qwen3next) {
      m.beta_alpha = linear(block(il, "ssm_ba"), n_embd, 2 * n_v);
    } else {
      m.beta = linear(block(il, "ssm_beta"), n_embd, n_v);
      m.alpha = linear(block(il, "ssm_alpha"), n_embd, n_v);
    }
    m.state_layer = add_state_layer(std::move(states));
    return m;
  }

  // Like attention(), but the product of q computes [q | gate] for each head.
  nn::Attention gated_attention(int64_t il) {
    const auto i = to_size(il);
    const int64_t n_embd = info_.n_embd, n_heads = n_heads_[i], n_kv = n_heads_kv_[i];
    nn::Attention a{.q = linear(block(il, "attn_q"), n_embd, 2 * k_dim_ * n_heads),
                    .k = linear(block(il, "attn_k"), n_embd, k_dim_ * n_kv),
                    .v = linear(block(il, "attn_v"), n_embd, v_dim_ * n_kv),
                    .out = linear(block(il, "attn_output"), v_dim_ * n_heads, n_embd),
                    .n_heads = n_heads,
                    .n_heads_kv = n_kv,
                    .k_dim = k_dim_,
                    .v_dim = v_dim_,
                    .rope = 0,
                    .cache_layer = static_cast<int64_t>(info_.kv_layers.size()),
                    .params = {.scale = 1.0f / std::sqrt(static_cast<float>(k_dim_))}};
    add_qk_norms(a, il, QkNorms::heads);
    if (k_dim_ != v_dim_)
      weights_.fail_with(Error(ErrorCode::mismatch, fmt::format("{}: key length {} and value length {}: want the same",
                                                                files_.name(), k_dim_, v_dim_)));
    info_.kv_layers.push_back({.n_heads_kv = n_kv, .k_dim = k_dim_, .v_dim = v_dim_});
    return a;
  }

  Value attend(LayerBuilder& s, Value x, const nn::Attention& a) const {
    GraphBuilder& b = s.b;
    const int64_t dim = a.k_dim, n_tokens = b.spec(x).shape()[1];
    const Value all = nn::linear(b, x, a.q), k = nn::linear(b, x, a.k), v = nn::linear(b, x, a.v);
    const int64_t head = 2 * dim * 4, token = head * a.n_heads;  // bytes
    const Layout half{.shape = {dim, a.n_heads, n_tokens}, .nb = {4, head, token, token * n_tokens}};
    const nn::Heads heads{.q = nn::norm(b, b.view(all, half, 0), a.q_norm),
                          .k = nn::norm(b, b.reshape(k, {dim, a.n_heads_kv, n_tokens}), a.k_norm),
                          .v = b.reshape(v, {a.v_dim, a.n_heads_kv, n_tokens})};
    const Value gate = b.sigmoid(b.view(all, half, to_size(dim * 4)));
    const Value y = nn::attend(b, nn::rotate(b, heads, a, s.ropes), a, s.in, s.cache);
    return nn::linear(b, s.wanted(b.mul(y, b.reshape(gate, {dim * a.n_heads, n_tokens}))), a.out);
  }

  Family family_;
  std::vector<bool> is_linear_;
  std::vector<nn::DeltaNet> mixers_;
};

Result<std::unique_ptr<Model>> create_qwen3next_kind(const ModelFiles& files, const RopeOverrides& rope,
                                                     std::string_view name) {
  return create_transformer<Qwen3Next>(
      files, rope,
      {.architecture = name,
       .pairs = RopePairs::halves,
       .mixture = {.layers = ExpertLayers::if_counted, .shared = SharedWidth::own_or_dense, .has_shared_gate = true},
       .heads = PredictionHeads::after_norm});
}

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3next(const ModelFiles& files, const RopeOverrides& rope) {
  return create_qwen3next_kind(files, rope, "qwen3next");
}

Result<std::unique_ptr<Model>> create_qwen35(const ModelFiles& files, const RopeOverrides& rope) {
  return create_qwen3next_kind(files, rope, "qwen35");
}

Result<std::unique_ptr<Model>> create_qwen35moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_qwen3next_kind(files, rope, "qwen35moe");
}

}  // namespace tessera
