// baichuan: like llama. The 7B model has rope, the 13B model ALiBi. They are told apart by the number of layers, as in
// llama.cpp.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kLayers7B = 32, kLayers13B = 40;
constexpr float kMaxAlibi = 8.0f;

class Baichuan final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    if (n_layers_ != kLayers7B) info_.ropes.clear();
    if (n_layers_ == kLayers13B) traits_.max_alibi = kMaxAlibi;
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_baichuan(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Baichuan>(
      files, rope, {.architecture = "baichuan", .rope = RopePart::whole, .output = OutputWeights::own});
}

}  // namespace tessera
