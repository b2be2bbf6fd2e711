// gemma2: norms before and after attention and feed-forward block, and gated GELU. Every other layer has a window.
// Scores and logits are capped. Embeddings are multiplied by sqrt(n_embd) and also serve as the output layer. Norm
// weights are stored with 1 added.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kGemma2Layers27B = 46;  // 27B: scores are scaled by n_embd / n_heads, not by the head size

class Gemma2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(final_soft_cap_, hp_.real_or("final_logit_softcapping", 30.0f, 0.0f, 1e6f));
    TESSERA_ASSIGN(score_cap_, hp_.real_or("attn_logit_softcapping", 50.0f, 0.0f, 1e6f));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    nn::Attention& a = l.attention;
    a.params.soft_cap = score_cap_;
    if (n_layers_ == kGemma2Layers27B)
      a.params.scale = std::sqrt(static_cast<float>(a.n_heads) / static_cast<float>(info_.n_embd));
    return l;
  }

 private:
  float score_cap_ = 0.0f;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma2>(files, rope,
                                    {.architecture = "gemma2",
                                     .form = LayerForm::sandwich,
                                     .activation = nn::Activation::gelu,
                                     .pairs = RopePairs::halves,
                                     .output = OutputWeights::embedding,
                                     .has_width_scale = true,
                                     .window = {.period = 2, .absent = 4096}});
}

}  // namespace tessera
