// nomic-bert-moe: like jina-bert-v3, with experts in some layers, which have neither gate nor biases.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class NomicBertMoe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(period_, hp_.integer("moe_every_n_layers", 0, kMaxLayers));
    return {};
  }

  bool has_experts(int64_t il) const override { return n_experts_ > 0 && period_ > 0 && il % period_ == 1; }

 private:
  int64_t period_ = 0;  // the second layer of each period has experts; 0: none
};

}  // namespace

Result<std::unique_ptr<Model>> create_nomic_bert_moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<NomicBertMoe>(
      files, rope,
      {.architecture = "nomic-bert-moe",
       .form = LayerForm::norm_sum,
       .ffn = FfnForm::plain,
       .activation = nn::Activation::gelu,
       .norm = nn::NormKind::layer,
       .pairs = RopePairs::halves,
       .output = OutputWeights::none,
       .output_norm = "",
       .has_embd_norm = true,
       .has_token_types = true,
       .mixture = {.layers = ExpertLayers::all, .width = ExpertWidth::dense, .normalize = false},
       .is_causal = false});
}

}  // namespace tessera
