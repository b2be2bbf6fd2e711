// starcoder2: layer norms, rope over halves, grouped queries, GELU, biases everywhere.
#include "tessera/models/transformer.h"

namespace tessera {

Result<std::unique_ptr<Model>> create_starcoder2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Transformer>(files, rope,
                                         {.architecture = "starcoder2",
                                          .ffn = FfnForm::plain,
                                          .activation = nn::Activation::gelu,
                                          .norm = nn::NormKind::layer,
                                          .pairs = RopePairs::halves});
}

}  // namespace tessera
