// bloom: layer norms, also of the embeddings. ALiBi instead of rope, GELU, biases everywhere.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr float kMaxAlibi = 8.0f;

class Bloom final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  void list_more() override { embd_norm_ = norm("token_embd_norm", {info_.n_embd}); }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.attention.params.max_alibi = kMaxAlibi;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_bloom(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Bloom>(files, rope,
                                   {.architecture = "bloom",
                                    .ffn = FfnForm::plain,
                                    .activation = nn::Activation::gelu,
                                    .norm = nn::NormKind::layer,
                                    .rope = RopePart::none});
}

}  // namespace tessera
