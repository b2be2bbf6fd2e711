// gemma-embedding: EmbeddingGemma. The layers of gemma3 without causal masks, with symmetric windows and no output
// layer.
#include <fmt/format.h>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class GemmaEmbedding final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  // Some files have two dense layers for pooled embeddings. Without them the embeddings would be others.
  void list_more() override {
    if (weights_.has("dense_2.weight"))
      weights_.fail_with(
          Error(ErrorCode::unsupported,
                fmt::format("{}: dense layers after pooling (dense_2) are not supported", files_.name())));
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_gemma_embedding(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<GemmaEmbedding>(
      files, rope,
      {.architecture = "gemma-embedding",
       .form = LayerForm::sandwich,
       .activation = nn::Activation::gelu,
       .qk_norms = QkNorms::heads,
       .pairs = RopePairs::halves,
       .output = OutputWeights::none,
       .has_width_scale = true,
       .window = {.period = 6, .is_required = true, .rope_base = 10000.0f, .is_stretched = false},
       .is_causal = false});
}

}  // namespace tessera
