// cohere2: Command R7B and A. Like command-r, except that three of four layers have a window and rope. The fourth has
// neither: full attention without positions.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kCohere2Period = 4;  // the last layer of each period has no window

class Cohere2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(logit_scale_, hp_.real("logit_scale", 1e-6f, 1e6f));
    TESSERA_ASSIGN(window_, hp_.integer("attention.sliding_window", 1, kMaxContext));
    TESSERA_ASSIGN(window_rope_, window_rope({.base = info_.ropes[0].config.freq_base}));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn = gated_ffn(il)};
    alternate_window(l.attention, il, kCohere2Period, nn::kNoRope);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, n, n, l);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_cohere2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Cohere2>(
      files, rope, {.architecture = "cohere2", .norm = nn::NormKind::layer, .output = OutputWeights::embedding});
}

}  // namespace tessera
