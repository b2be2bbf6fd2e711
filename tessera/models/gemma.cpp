// gemma: gated GELU. Embeddings are multiplied by sqrt(n_embd) and also serve as the output layer. Norm weights are
// stored with 1 added.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Gemma final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    embedding_scale_ = std::sqrt(static_cast<float>(info_.n_embd));
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Gemma>(files, rope,
                                   {.architecture = "gemma",
                                    .activation = nn::Activation::gelu,
                                    .pairs = RopePairs::halves,
                                    .output = OutputWeights::embedding});
}

}  // namespace tessera
