// granite and granitemoe: like llama, with constant factors on embeddings, scores, the output of each block, and
// logits. With experts there may be a shared expert; the routing weights are a softmax divided by its sum.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Granite final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const float divisor, hp_.real("logit_scale", 1e-6f, 1e6f));
    logit_scale_ = 1.0f / divisor;
    TESSERA_TRY(read_multipliers());
    TESSERA_ASSIGN(has_rope_, hp_.flag_or("rope.scaling.finetuned", true));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (!has_rope_) l.attention.rope = nn::kNoRope;
    return l;
  }

 private:
  bool has_rope_ = true;
};

Result<std::unique_ptr<Model>> create_granite_kind(const ModelFiles& files, const RopeOverrides& rope,
                                                   std::string_view name) {
  return create_transformer<Granite>(
      files, rope,
      {.architecture = name,
       .rope = RopePart::whole,
       .mixture = {.layers = ExpertLayers::if_counted, .width = ExpertWidth::dense, .shared = SharedWidth::own}});
}

}  // namespace

Result<std::unique_ptr<Model>> create_granite(const ModelFiles& files, const RopeOverrides& rope) {
  return create_granite_kind(files, rope, "granite");
}

Result<std::unique_ptr<Model>> create_granitemoe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_granite_kind(files, rope, "granitemoe");
}

}  // namespace tessera
