// bert: BERT, RoBERTa and models distilled from them. Learned positions, GELU, biases everywhere.
#include "tessera/models/encoder.h"

namespace tessera {

namespace {

class Bert final : public Encoder {
 public:
  using Encoder::Encoder;

 protected:
  void list_more() override {
    Encoder::list_more();
    position_embd_ = weights_.need("position_embd.weight", {info_.n_embd, info_.n_ctx_train}, Op::get_rows);
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Encoder::list_layer(il);
    l.ffn = plain_ffn(il, nn::Activation::gelu);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_bert(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Bert>(files, rope, encoder_traits("bert", RopePart::none));
}

}  // namespace tessera
