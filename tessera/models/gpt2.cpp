// gpt2: layer norms, learned positions, GELU, biases everywhere. The output layer is the embedding unless the file has
// its own.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Gpt2 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  void list_more() override {
    position_embd_ = weights_.need("position_embd.weight", {info_.n_embd, info_.n_ctx_train}, Op::get_rows);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gpt2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gpt2>(files, rope,
                                  {.architecture = "gpt2",
                                   .ffn = FfnForm::plain,
                                   .activation = nn::Activation::gelu,
                                   .norm = nn::NormKind::layer,
                                   .rope = RopePart::none});
}

}  // namespace tessera
