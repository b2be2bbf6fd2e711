// qwen3: like qwen2 without biases. The heads of q and k are normed before they are rotated.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Qwen3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  // Rerankers compute a softmax over the labels of the last token.
  void list_more() override {
    rank_.pooling = nn::Pooling::last;
    rank_.has_soft_max = true;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Qwen3>(
      files, rope,
      {.architecture = "qwen3", .qk_norms = QkNorms::heads, .pairs = RopePairs::halves, .ffn_scales = FfnScales::all});
}

}  // namespace tessera
