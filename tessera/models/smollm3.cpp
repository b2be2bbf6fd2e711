// smollm3: like llama; every fourth layer has no rope.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class SmolLm3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if ((il + 1) % 4 == 0) l.attention.rope = nn::kNoRope;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_smollm3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<SmolLm3>(files, rope, {.architecture = "smollm3", .rope = RopePart::whole});
}

}  // namespace tessera
