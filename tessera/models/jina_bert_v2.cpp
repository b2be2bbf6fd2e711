// jina-bert-v2: like bert with ALiBi instead of positions, and gated GELU, whose gate may be in one matrix with ffn_up.
// Some models norm q and k over all heads, or have a second norm after attention, of the sum with the input.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class JinaBertV2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    if (!weights_.has(block(il, "ffn_gate.weight"))) traits_.ffn = FfnForm::fused;
    TransformerLayer l = Transformer::list_layer(il);
    if (weights_.has(block(il, "attn_q_norm.weight"))) add_qk_norms(l.attention, il, QkNorms::whole);
    second_norms_.push_back(maybe_norm(block(il, "attn_norm_2"), {info_.n_embd}));
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Norm& second = second_norms_[to_size(s.layer)];
    Value y = s.norm(s.residual(x, s.attend(x, l.attention)), l.attn_post_norm);
    if (second.present()) y = s.norm(s.residual(x, y), second);
    return s.norm(s.residual(y, s.ffn(y, l)), l.ffn_post_norm);
  }

 private:
  std::vector<nn::Norm> second_norms_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_jina_bert_v2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<JinaBertV2>(files, rope,
                                        {.architecture = "jina-bert-v2",
                                         .form = LayerForm::norm_sum,
                                         .activation = nn::Activation::gelu,
                                         .norm = nn::NormKind::layer,
                                         .rope = RopePart::none,
                                         .max_alibi = 8.0f,
                                         .output = OutputWeights::none,
                                         .output_norm = "",
                                         .has_embd_norm = true,
                                         .has_token_types = true,
                                         .is_causal = false});
}

}  // namespace tessera
