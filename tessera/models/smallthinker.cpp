// smallthinker: experts with gated ReLU, chosen from the input of the layer, before attention. If the file has a
// window, it is 4096, and every fourth layer, from the first on, has no rope. These layers have no window either,
// unless the file says another period of windows.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kRopePeriod = 4;

class SmallThinker final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    if (window_ > 0) window_ = kWindow;
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (window_ > 0 && il % kRopePeriod == 0) l.attention.rope = nn::kNoRope;
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Routed routed = nn::route(s.b, s.wanted(x), l.experts.router);
    x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    return s.residual(x, nn::experts(s.b, s.norm(x, l.ffn_norm), l.experts, routed));
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_smallthinker(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<SmallThinker>(
      files, rope,
      {.architecture = "smallthinker",
       .activation = nn::Activation::relu,
       .rope = RopePart::whole,
       .pairs = RopePairs::halves,
       .window = {.period = kRopePeriod, .begins_without = true, .reads_period = true},
       .mixture = {.layers = ExpertLayers::all, .gating_key = KeyUse::required}});
}

}  // namespace tessera
