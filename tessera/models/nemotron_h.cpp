// nemotron_h and nemotron_h_moe: each layer is one of a Mamba 2 mixer, attention without rope, and a feed-forward block
// with squared ReLU and no gate. In nemotron_h_moe the latter has experts, which may compute on a projection of their
// input, and a shared expert, which does not.
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class NemotronH final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(n_latent_, hp_.integer_or("moe_latent_size", 0, 0, kMaxWidth));
    return read_mamba2_keys();
  }

  TransformerLayer list_layer(int64_t il) override {
    const auto i = to_size(il);
    const bool has_ffn = !n_ff_.empty() && n_ff_[i] > 0;
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    Part part;
    if (has_ffn)
      list_ffn(l, part, il);
    else if (is_recurrent(il))
      part.mixer = mamba2(il);
    else
      l.attention = attention(il);
    parts_.push_back(part);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Part& part = parts_[to_size(s.layer)];
    const Value n = s.norm(x, l.attn_norm);
    if (part.mixer.state_layer >= 0)
      return s.residual(x, nn::linear(s.b, s.wanted(nn::mamba2(s.b, n, part.mixer, s.in)), part.mixer.out));
    if (l.attention.cache_layer >= 0) return s.residual(x, s.attend(n, l.attention));
    return s.residual(x, feed_forward(s.b, s.wanted(n), l, part));
  }

 private:
  /// The weights of a layer besides the common ones.
  struct Part {
    nn::Mamba2 mixer{};
    nn::Linear latent_down{}, latent_up{};  // around the routed experts
  };

  void list_ffn(TransformerLayer& l, Part& part, int64_t il) {
    if (!has_experts(il) || n_latent_ == 0) return add_ffn(l, il);
    part.latent_down = linear(block(il, "ffn_latent_down"), info_.n_embd, n_latent_);
    part.latent_up = linear(block(il, "ffn_latent_up"), n_latent_, info_.n_embd);
    l.experts = experts(il, mixture_.n_ff, mixture_.router, n_latent_);
    if (mixture_.n_ff_shared > 0) l.shared_expert = shared_expert(il, mixture_.n_ff_shared);
  }

  static Value feed_forward(GraphBuilder& b, Value x, const TransformerLayer& l, const Part& part) {
    if (l.experts.router.weight == nullptr) return nn::ffn(b, x, l.ffn);
    const nn::Routed routed = nn::route(b, x, l.experts.router);
    const bool is_latent = part.latent_down.weight != nullptr;
    Value y = nn::experts(b, is_latent ? nn::linear(b, x, part.latent_down) : x, l.experts, routed);
    if (is_latent) y = nn::linear(b, y, part.latent_up);
    return l.shared_expert.down.weight == nullptr ? y : b.add(y, nn::ffn(b, x, l.shared_expert));
  }

  int64_t n_latent_ = 0;
  std::vector<Part> parts_;
};

Result<std::unique_ptr<Model>> create_nemotron_h_kind(const ModelFiles& files, const RopeOverrides& rope,
                                                      std::string_view name, ExpertLayers expert_layers) {
  return create_transformer<NemotronH>(files, rope,
                                       {.architecture = name,
                                        .ffn = FfnForm::plain,
                                        .activation = nn::Activation::relu_squared,
                                        .rope = RopePart::none,
                                        .ffn_scales = FfnScales::all,
                                        .mixture = {.layers = expert_layers,
                                                    .width = ExpertWidth::own_or_share,
                                                    .shared = SharedWidth::own,
                                                    .gating = nn::Gating::sigmoid,
                                                    .reads_norm = true,
                                                    .reads_scale = true},
                                        .min_heads_kv = 0});
}

}  // namespace

Result<std::unique_ptr<Model>> create_nemotron_h(const ModelFiles& files, const RopeOverrides& rope) {
  return create_nemotron_h_kind(files, rope, "nemotron_h", ExpertLayers::none);
}

Result<std::unique_ptr<Model>> create_nemotron_h_moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_nemotron_h_kind(files, rope, "nemotron_h_moe", ExpertLayers::all);
}

}  // namespace tessera
