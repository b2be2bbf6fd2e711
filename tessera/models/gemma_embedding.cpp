// gemma-embedding: EmbeddingGemma. The layers of gemma3 without causal masks, with symmetric windows and no output
// layer. Pooled embeddings may pass through two linear layers.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class GemmaEmbedding final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(n_dense_, hp_.integer_or("dense_2_feat_out", info_.n_embd, 1, kMaxWidth));
    return {};
  }

  // Two linear layers of pooled embeddings, which some files have.
  void list_more() override {
    info_.projects_pooled = weights_.has("dense_2.weight") || weights_.has("dense_3.weight");
    if (!info_.projects_pooled) return;
    rank_.activation = nn::RankHead::Activation::none;
    rank_.dense = linear("dense_2", info_.n_embd, n_dense_);
    rank_.output = linear("dense_3", n_dense_, info_.n_embd);
  }

 private:
  int64_t n_dense_ = 0;  // columns between them
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
       .window = {.period = 6, .reads_period = true, .is_required = true, .rope_base = 10000.0f, .is_stretched = false},
       .is_causal = false});
}

}  // namespace tessera
