// minicpm3: latent attention whose cache stores keys and values of each head, with rope over halves. Embeddings, the
// output of each block and logits have constant factors.
#include <cmath>

#include "tessera/models/latent_model.h"

namespace tessera {

namespace {

class MiniCpm3 final : public LatentModel {
 public:
  using LatentModel::LatentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_latent_keys());
    score_scale_ = 1.0f / std::sqrt(static_cast<float>(head_k_dim_));
    embedding_scale_ = 12.0f;
    residual_scale_ = 1.4f / std::sqrt(static_cast<float>(n_layers_));
    logit_scale_ = 256.0f / static_cast<float>(info_.n_embd);
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_minicpm3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<MiniCpm3>(files, rope, {.architecture = "minicpm3", .pairs = RopePairs::halves});
}

}  // namespace tessera
