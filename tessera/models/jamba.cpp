// jamba: layers without KV heads are Mamba mixers with norms of dt, B and C. The others are attention without rope.
// Each is followed by a SwiGLU block, or by experts if the layer has a router. Routing weights are a softmax that is
// not normalized over the chosen experts.
#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class Jamba final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override { return read_ssm_keys(Groups::none); }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    nn::Mamba m;
    if (is_recurrent(il)) {
      m = mamba(il);
      m.has_norms = true;
      m.dt_norm = norm(block(il, "ssm_dt_norm"), {m.dt_rank});
      m.b_norm = norm(block(il, "ssm_b_norm"), {m.n_state});
      m.c_norm = norm(block(il, "ssm_c_norm"), {m.n_state});
    } else {
      l.attention = attention(il);
    }
    mixers_.push_back(m);
    l.ffn_norm = norm(il, "ffn_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Mamba& m = mixers_[to_size(s.layer)];
    const Value h = s.norm(x, l.attn_norm);
    x = s.residual(
        x, m.state_layer < 0 ? s.attend(h, l.attention) : nn::linear(s.b, s.wanted(nn::mamba(s.b, h, m, s.in)), m.out));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  std::vector<nn::Mamba> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_jamba(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Jamba>(
      files, rope,
      {.architecture = "jamba",
       .rope = RopePart::none,
       .mixture = {.layers = ExpertLayers::with_router, .width = ExpertWidth::dense, .normalize = false},
       .min_heads_kv = 0});
}

}  // namespace tessera
