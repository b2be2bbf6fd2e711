// gemma3: like gemma2 without the cap on scores, plus norms of the heads of q and k. Five of six layers have a window
// and a separate rope without scaling.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kGemma3Layers27B = 62;  // 27B: scores are scaled by n_embd / n_heads, not by the head size

class Gemma3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(final_soft_cap_, hp_.real_or("final_logit_softcapping", 0.0f, 0.0f, 1e6f));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    nn::Attention& a = l.attention;
    if (n_layers_ == kGemma3Layers27B)
      a.params.scale = std::sqrt(static_cast<float>(a.n_heads) / static_cast<float>(info_.n_embd));
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma3>(files, rope,
                                    {.architecture = "gemma3",
                                     .form = LayerForm::sandwich,
                                     .activation = nn::Activation::gelu,
                                     .qk_norms = QkNorms::heads,
                                     .pairs = RopePairs::halves,
                                     .has_width_scale = true,
                                     .window = {.period = 6, .rope_base = 10000.0f, .is_stretched = false}});
}

}  // namespace tessera
