// talkie: all norms are RMS norms without weights, also of the embeddings and of rotated q and k. Each head of q has a
// factor. The output of each feed-forward block is added with a multiple of the embeddings.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Talkie final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    q_factors_.push_back(weights_.need(block(il, "attn_q_norm.weight"), {1, l.attention.n_heads}, Op::mul));
    embedding_factors_.push_back(weights_.need(block(il, "layer_output_scale.weight"), {1}, Op::mul));
    return l;
  }

  Value embed(LayerBuilder& s) const override { return s.shared = s.norm(Transformer::embed(s), output_norm_); }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    GraphBuilder& b = s.b;
    const auto i = to_size(s.layer);
    nn::Heads heads = nn::rotate(b, nn::project(b, s.norm(x, l.attn_norm), l.attention), l.attention, s.ropes);
    heads.q = b.mul(heads.q, nn::vector_f32(b, *q_factors_[i]));
    const Value attended = nn::attend(b, heads, l.attention, s.in, s.cache);
    x = s.residual(x, nn::linear(b, s.wanted(attended), l.attention.out));
    x = s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
    return s.residual(x, b.mul(s.wanted(s.shared), nn::vector_f32(b, *embedding_factors_[i])));
  }

 private:
  std::vector<const Tensor*> q_factors_, embedding_factors_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_talkie(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Talkie>(files, rope,
                                    {.architecture = "talkie",
                                     .has_norm_weights = false,
                                     .qk_norms = QkNorms::rotated_heads,
                                     .rope = RopePart::whole,
                                     .pairs = RopePairs::halves,
                                     .output = OutputWeights::own,
                                     .logit_scale = KeyUse::required,
                                     .ffn_scales = FfnScales::all,
                                     .optional = {.output_scale = false}});
}

}  // namespace tessera
