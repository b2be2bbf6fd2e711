// lfm2, lfm2moe: layers without KV heads are gated short convolutions. The others are attention with norms of q and k
// per head and rope over halves. Each is followed by a SwiGLU block. In lfm2moe, layers from leading_dense_block_count
// on are mixtures, whose experts are chosen with a bias. The norm before the output is named token_embd_norm.
#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class Lfm2 final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(conv_width_, hp_.integer("shortconv.l_cache", 2, kMaxConvWidth));
    TESSERA_ASSIGN(window_, hp_.integer_or("attention.sliding_window", 0, 0, kMaxContext));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    mixers_.push_back(is_recurrent(il) ? short_conv(il) : nn::ShortConv{});
    if (!is_recurrent(il)) {
      l.attention = attention(il);
      l.attention.params.window = window_;
      add_qk_norms(l.attention, il, QkNorms::heads);
    }
    l.ffn_norm = norm(il, "ffn_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::ShortConv& m = mixers_[to_size(s.layer)];
    const Value h = s.norm(x, l.attn_norm);
    x = s.residual(x, m.state_layer < 0 ? s.attend(h, l.attention)
                                        : nn::linear(s.b, s.wanted(nn::short_conv(s.b, h, m, s.in)), m.out));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  nn::ShortConv short_conv(int64_t il) {
    const int64_t n = info_.n_embd;
    return {.in = linear(block(il, "shortconv.in_proj"), n, 3 * n),
            .conv = {.weight = weights_.need(block(il, "shortconv.conv.weight"), {conv_width_, n}, Op::causal_conv)},
            .out = linear(block(il, "shortconv.out_proj"), n, n),
            .state_layer = add_state_layer({(conv_width_ - 1) * n})};
  }

  int64_t conv_width_ = 0;
  std::vector<nn::ShortConv> mixers_;
};

Result<std::unique_ptr<Model>> create_lfm2_kind(const ModelFiles& files, const RopeOverrides& rope,
                                                std::string_view name, ExpertLayers expert_layers) {
  return create_transformer<Lfm2>(
      files, rope,
      {.architecture = name,
       .pairs = RopePairs::halves,
       .output_norm = "token_embd_norm",
       .mixture = {.layers = expert_layers, .gating = nn::Gating::sigmoid, .gating_key = KeyUse::optional},
       .min_heads_kv = 0});
}

}  // namespace

Result<std::unique_ptr<Model>> create_lfm2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_lfm2_kind(files, rope, "lfm2", ExpertLayers::none);
}

Result<std::unique_ptr<Model>> create_lfm2moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_lfm2_kind(files, rope, "lfm2moe", ExpertLayers::after_dense);
}

}  // namespace tessera
