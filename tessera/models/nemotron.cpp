// nemotron: Nemotron 3 and Minitron. Layer norms stored with 1 added, partial rope, squared ReLU.
#include "tessera/models/transformer.h"

namespace tessera {

Result<std::unique_ptr<Model>> create_nemotron(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Transformer>(files, rope,
                                         {.architecture = "nemotron",
                                          .ffn = FfnForm::plain,
                                          .activation = nn::Activation::relu_squared,
                                          .norm = nn::NormKind::layer,
                                          .pairs = RopePairs::halves,
                                          .output = OutputWeights::own});
}

}  // namespace tessera
