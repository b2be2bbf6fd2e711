// grok: Grok 1 and 2. Norms before and after attention and feed-forward block. Scores are capped, and embeddings and
// logits have factors. Experts with gated GELU, in Grok 2 beside a dense block: the mean of both, times sqrt(2).
#include <numbers>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Grok final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(embedding_scale_, hp_.real_or("embedding_scale", 78.38367176906169f, 1e-6f, 1e6f));
    TESSERA_ASSIGN(logit_scale_, hp_.real_or("logit_scale", 0.5773502691896257f, 1e-6f, 1e6f));
    TESSERA_ASSIGN(attention_scale_, hp_.real_or("attention.output_scale", 0.08838834764831845f, 1e-6f, 1e6f));
    TESSERA_ASSIGN(score_cap_, hp_.real_or("attn_logit_softcapping", 30.0f, 0.0f, 1e6f));
    TESSERA_ASSIGN(final_soft_cap_, hp_.real_or("final_logit_softcapping", 0.0f, 0.0f, 1e6f));
    return read_yarn();
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.attention.params.soft_cap = score_cap_;
    l.attn_post_norm = norm(il, "attn_output_norm");
    const bool is_older = weights_.has(block(il, "layer_output_norm.weight"));
    l.ffn_post_norm = norm(il, is_older ? "layer_output_norm" : "post_ffw_norm");
    if (weights_.has(block(il, "ffn_up.weight"))) l.ffn = dense_ffn(il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = s.residual(x, s.norm(s.attend(s.norm(x, l.attn_norm), l.attention), l.attn_post_norm));
    const Value n = s.norm(x, l.ffn_norm);
    Value y = nn::experts(s.b, n, l.experts);
    if (l.ffn.up.weight != nullptr)
      y = s.b.scale(s.b.add(nn::ffn(s.b, n, l.ffn), y), 1.0f / std::numbers::sqrt2_v<float>);
    return s.residual(x, s.norm(y, l.ffn_post_norm));
  }

 private:
  // The file's settings of YaRN, unless they are overridden. The magnitude of YaRN takes the place of yarn_attn_factor,
  // so this key has an effect in files without YaRN only.
  Result<> read_yarn() {
    nn::RopeConfig& c = info_.ropes[0].config;
    const auto read = [&](float& value, bool is_given, std::string_view key, float min, float max) -> Result<> {
      if (is_given) return {};
      TESSERA_ASSIGN(value, hp_.real_or(key, value, min, max));
      return {};
    };
    const bool has_fast = overrides_.yarn_beta_fast.has_value(), has_slow = overrides_.yarn_beta_slow.has_value();
    if (!has_fast) c.yarn_beta_fast = 8.0f;
    TESSERA_TRY(read(c.yarn_ext, overrides_.yarn_ext.has_value(), "rope.scaling.yarn_ext_factor", -1.0f, 1e3f));
    TESSERA_TRY(read(c.yarn_beta_fast, has_fast, "rope.scaling.yarn_beta_fast", 1e-6f, 1e6f));
    TESSERA_TRY(read(c.yarn_beta_slow, has_slow, "rope.scaling.yarn_beta_slow", 1e-6f, 1e6f));
    float factor = 1.0f;
    TESSERA_TRY(read(factor, overrides_.attn_factor.has_value(), "rope.scaling.yarn_attn_factor", 1e-6f, 1e6f));
    const bool is_yarn = c.yarn_ext < 0.0f ? c.scaling == nn::RopeScaling::yarn : c.yarn_ext > 0.0f;
    if (!is_yarn) c.attn_factor *= factor;
    return {};
  }

  float score_cap_ = 0.0f;
};

}  // namespace

Result<std::unique_ptr<Model>> create_grok(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Grok>(files, rope,
                                  {.architecture = "grok",
                                   .activation = nn::Activation::gelu,
                                   .rope = RopePart::whole,
                                   .pairs = RopePairs::halves,
                                   .mixture = {.layers = ExpertLayers::all, .width = ExpertWidth::own_or_dense}});
}

}  // namespace tessera
