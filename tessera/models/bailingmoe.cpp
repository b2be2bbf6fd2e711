// bailingmoe: Ling 1. Every layer has experts and a shared expert. Heads have rope.dimension_count elements.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class BailingMoe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    k_dim_ = v_dim_ = info_.ropes[0].config.n_rot;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_bailingmoe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<BailingMoe>(
      files, rope,
      {.architecture = "bailingmoe",
       .output = OutputWeights::own,
       .mixture = {
           .layers = ExpertLayers::all, .shared = SharedWidth::counted, .reads_norm = true, .reads_scale = true}});
}

}  // namespace tessera
