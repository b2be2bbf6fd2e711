// qwen: Qwen 1. Fused q, k and v with biases. The feed-forward block has half of the columns that the file states.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Qwen final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    for (int64_t& n : n_ff_) n /= 2;
    return {};
  }

  // If a file has fewer KV heads, V follows the K that are used, as in llama.cpp.
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.attention.qkv_heads_kv = l.attention.n_heads_kv;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Qwen>(
      files, rope,
      {.architecture = "qwen", .pairs = RopePairs::halves, .has_qkv_of_all_heads = true, .output = OutputWeights::own});
}

}  // namespace tessera
