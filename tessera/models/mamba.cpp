// mamba: Mamba (Gu and Dao 2023) and Falcon Mamba. A layer is one mixer, x += out(mamba(norm(x))), without attention,
// feed-forward block or rope. Falcon Mamba norms dt, B and C, without weights.
#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class Mamba final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(has_norms_, hp_.flag_or("ssm.dt_b_c_rms", false));
    return read_ssm_keys(Groups::none);
  }

  TransformerLayer list_layer(int64_t il) override {
    nn::Mamba m = mamba(il);
    m.has_norms = has_norms_;
    m.dt_norm = m.b_norm = m.c_norm = {.eps = eps_};
    mixers_.push_back(m);
    return {.attn_norm = norm(il, "attn_norm")};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Mamba& m = mixers_[to_size(s.layer)];
    const Value y = nn::mamba(s.b, s.norm(x, l.attn_norm), m, s.in);
    return s.residual(x, nn::linear(s.b, s.wanted(y), m.out));
  }

 private:
  bool has_norms_ = false;
  std::vector<nn::Mamba> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_mamba(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mamba>(files, rope, {.architecture = "mamba", .rope = RopePart::none, .min_heads_kv = 0});
}

}  // namespace tessera
