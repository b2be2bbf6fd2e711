// mimo2: MiMo 2. A flag per layer tells which have a window. Heads of q and k may be longer than those of v, sinks are
// optional, and the output of attention has a factor. Experts are in the layers with a router.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Mimo2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const float scale, hp_.real_or("attention.value_scale", 0.0f, 0.0f, 1e6f));
    if (scale != 0.0f) value_scale_ = scale;  // 0 means "not scaled"
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.attention.sinks = weights_.maybe(block(il, "attn_sinks.weight"), {l.attention.n_heads}, Op::paged_attention);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value y = s.attend(s.norm(x, l.attn_norm), l.attention);
    x = s.residual(x, value_scale_ == 1.0f ? y : s.b.scale(y, value_scale_));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  float value_scale_ = 1.0f;
};

}  // namespace

Result<std::unique_ptr<Model>> create_mimo2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mimo2>(
      files, rope,
      {.architecture = "mimo2",
       .pairs = RopePairs::halves,
       .output = OutputWeights::own,
       .optional = {.qkv_bias = false, .qkv_scale = false},
       .window = {.pattern = KeyUse::required, .is_required = true, .rope_base = 10000.0f, .is_stretched = false},
       .mixture = {.layers = ExpertLayers::with_router, .gating = nn::Gating::sigmoid},
       .heads = PredictionHeads::before_norm});
}

}  // namespace tessera
