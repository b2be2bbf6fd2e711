// falcon-h1: in every layer, attention and a Mamba 2 mixer compute from the same normed input, and both are added. The
// norm before the feed-forward block is named ffn_norm without a suffix. Factors of the original are in the weights.
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class FalconH1 final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override { return read_mamba2_keys(); }

  TransformerLayer list_layer(int64_t il) override {
    mixers_.push_back(mamba2(il, false));
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn_norm = norm(il, "ffn_norm")};
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Mamba2& m = mixers_[to_size(s.layer)];
    const Value n = s.norm(x, l.attn_norm);
    const Value attended = s.attend(n, l.attention);
    const Value mixed = nn::linear(s.b, s.wanted(nn::mamba2(s.b, n, m, s.in)), m.out);
    x = s.residual(x, s.b.add(attended, mixed));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  std::vector<nn::Mamba2> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_falcon_h1(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<FalconH1>(files, rope,
                                      {.architecture = "falcon-h1",
                                       .pairs = RopePairs::halves,
                                       .optional = {.out_bias = false, .rope_factors = false}});
}

}  // namespace tessera
