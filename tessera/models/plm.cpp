// plm: latent attention whose cache stores keys and values of each head. Squared ReLU without a gate.
#include "tessera/models/latent_model.h"

namespace tessera {

namespace {

class Plm final : public LatentModel {
 public:
  using LatentModel::LatentModel;

 protected:
  Result<> read_keys() override { return read_latent_keys(); }
};

}  // namespace

Result<std::unique_ptr<Model>> create_plm(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Plm>(files, rope,
                                 {.architecture = "plm",
                                  .ffn = FfnForm::plain,
                                  .activation = nn::Activation::relu_squared,
                                  .output = OutputWeights::embedding});
}

}  // namespace tessera
