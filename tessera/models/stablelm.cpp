// stablelm: layer norms, partial rope, SwiGLU. StableLM 2 12B norms the heads of q and k with a separate weight row per
// head, and its attention and feed-forward block are parallel.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class StableLm final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = maybe_norm(block(il, "ffn_norm"), {info_.n_embd}),
                       .ffn = dense_ffn(il)};
    nn::Attention& a = l.attention;
    a.q_norm = maybe_norm(block(il, "attn_q_norm"), {a.k_dim, a.n_heads});
    a.k_norm = maybe_norm(block(il, "attn_k_norm"), {a.k_dim, a.n_heads_kv});
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    if (l.ffn_norm.present()) return Transformer::layer(s, x, l);
    const Value n = s.norm(x, l.attn_norm);
    return s.parallel(x, n, n, l);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_stablelm(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<StableLm>(files, rope,
                                      {.architecture = "stablelm",
                                       .norm = nn::NormKind::layer,
                                       .pairs = RopePairs::halves,
                                       .output = OutputWeights::own});
}

}  // namespace tessera
