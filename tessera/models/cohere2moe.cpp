// cohere2moe: like cohere2 with experts after the dense layers, and RMS norms or layer norms. The outputs of routed
// experts and of the shared expert are averaged. Layers with a window, dense layers and prediction heads have rope.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Cohere2Moe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (il < mixture_.n_dense || il >= n_layers_) l.attention.rope = 0;
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const Value n = s.norm(x, l.attn_norm);
    const Value y = s.attend(n, l.attention);
    Value f = s.ffn(s.wanted(n), l);
    if (l.shared_expert.down.weight != nullptr) f = s.b.scale(f, 0.5f);
    return s.residual(x, s.b.add(y, f));
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_cohere2moe(const ModelFiles& files, const RopeOverrides& rope) {
  const HparamReader keys(files, "cohere2moe");
  // Files with RMS norms have their eps, others have none or 0.
  TESSERA_ASSIGN(const float rms_eps, keys.real_or("attention.layer_norm_rms_epsilon", 0.0f, 0.0f, 1.0f));
  return create_transformer<Cohere2Moe>(files, rope,
                                        {.architecture = "cohere2moe",
                                         .form = LayerForm::parallel,
                                         .norm = rms_eps > 0.0f ? nn::NormKind::rms : nn::NormKind::layer,
                                         .rope = RopePart::whole,
                                         .logit_scale = KeyUse::required,
                                         .ffn_scales = FfnScales::all,
                                         .optional = {.output_scale = false},
                                         .window = {.begins_without = true,
                                                    .pattern = KeyUse::required,
                                                    .is_required = true,
                                                    .is_rope_of_windows = true,
                                                    .has_rope_base = false},
                                         .mixture = {.layers = ExpertLayers::after_dense,
                                                     .shared = SharedWidth::own_or_counted,
                                                     .gating = nn::Gating::sigmoid,
                                                     .gating_key = KeyUse::optional,
                                                     .reads_norm = true,
                                                     .reads_scale = true},
                                         .heads = PredictionHeads::after_norm});
}

}  // namespace tessera
