// mamba2: Mamba 2 (Dao and Gu 2024) and Codestral Mamba. A layer is one mixer, x += out(mamba2(norm(x))), without
// attention, feed-forward block or rope.
#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class Mamba2 final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override { return read_mamba2_keys(); }

  TransformerLayer list_layer(int64_t il) override {
    mixers_.push_back(mamba2(il));
    return {.attn_norm = norm(il, "attn_norm")};
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Mamba2& m = mixers_[to_size(s.layer)];
    const Value y = nn::mamba2(s.b, s.norm(x, l.attn_norm), m, s.in);
    return s.residual(x, nn::linear(s.b, s.wanted(y), m.out));
  }

 private:
  std::vector<nn::Mamba2> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_mamba2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mamba2>(files, rope, {.architecture = "mamba2", .rope = RopePart::none, .min_heads_kv = 0});
}

}  // namespace tessera
