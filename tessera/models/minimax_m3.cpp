// minimax-m3: MiniMax M3. Dense layers, then layers with experts and a shared expert, all with the bounded SwiGLU of
// gpt-oss. Layers with experts choose blocks of keys for each query. While a text has no more blocks than are chosen,
// all are. Longer texts are refused, and the weights of the choice are not read.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class MiniMaxM3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const int64_t block_size, hp_.integer("attention.indexer.block_size", 1, kMaxContext));
    return read_index(block_size);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_minimax_m3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<MiniMaxM3>(files, rope,
                                       {.architecture = "minimax-m3",
                                        .activation = nn::Activation::swiglu_oai,
                                        .qk_norms = QkNorms::heads,
                                        .pairs = RopePairs::halves,
                                        .output = OutputWeights::own,
                                        .mixture = {.layers = ExpertLayers::after_dense,
                                                    .shared = SharedWidth::counted,
                                                    .gating_key = KeyUse::required,
                                                    .reads_norm = true,
                                                    .reads_scale = true}});
}

}  // namespace tessera
