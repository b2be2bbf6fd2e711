// nomic-bert: like bert, with rope instead of learned positions and SwiGLU, without biases.
#include "tessera/models/encoder.h"

namespace tessera {

namespace {

class NomicBert final : public Encoder {
 public:
  using Encoder::Encoder;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Encoder::list_layer(il);
    l.ffn = gated_ffn(il);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_nomic_bert(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<NomicBert>(files, rope, encoder_traits("nomic-bert", RopePart::some));
}

}  // namespace tessera
