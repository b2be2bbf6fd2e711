// hunyuan-dense and hunyuan_vl (on text): like llama, with rope over halves. The heads of q and k are normed after they
// are rotated. A factor alpha raises the base of rope.
#include <cmath>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Hunyuan final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const float alpha, hp_.real_or("rope.scaling.alpha", 0.0f, 0.0f, 1e6f));
    nn::RopeConfig& config = info_.ropes[0].config;
    if (alpha == 0.0f || config.n_rot == 2) return {};
    const auto dim = static_cast<float>(k_dim_);
    config.freq_base *= std::pow(alpha, dim / (dim - 2.0f));
    return {};
  }
};

Result<std::unique_ptr<Model>> create_hunyuan(const ModelFiles& files, const RopeOverrides& rope,
                                              std::string_view name) {
  return create_transformer<Hunyuan>(files, rope,
                                     {.architecture = name,
                                      .qk_norms = QkNorms::rotated_heads,
                                      .rope = RopePart::whole,
                                      .pairs = RopePairs::halves,
                                      .rope_sections = KeyUse::optional});
}

}  // namespace

Result<std::unique_ptr<Model>> create_hunyuan_dense(const ModelFiles& files, const RopeOverrides& rope) {
  return create_hunyuan(files, rope, "hunyuan-dense");
}

Result<std::unique_ptr<Model>> create_hunyuan_vl(const ModelFiles& files, const RopeOverrides& rope) {
  return create_hunyuan(files, rope, "hunyuan_vl");
}

}  // namespace tessera
